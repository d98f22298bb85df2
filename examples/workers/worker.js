// rlctl's own scripts from Node: one call of a script decides, and tells all. Only what Node itself brings.
//
//     rlctl race 'exec:node examples/workers/worker.js' sliding-log --procs 20 --limit 100
'use strict';
const crypto = require('crypto');
const fs = require('fs');
const path = require('path');
const { serve } = require('./resp.js');

const sources = {};
const script = (name) =>
  (sources[name] ??= fs.readFileSync(path.join(__dirname, '../../scripts', `${name}.lua`), 'utf8'));

async function check(redis, rule, request) {
  const source = script(rule.limiter);
  const client = request.key.replaceAll('%', '%25').replaceAll('}', '%7D');
  const key = `${rule.prefix}:{${client}}:${rule.limiter}`;
  const words = ['1', key, rule.limit, rule.window_us, rule.burst, request.cost, request.request, 0];
  const sha = crypto.createHash('sha1').update(source).digest('hex');
  const reply = await redis('EVALSHA', sha, ...words).catch((error) => {
    if (!error.message.startsWith('NOSCRIPT')) throw error;
    return redis('EVAL', source, ...words);
  });
  const [allowed, remaining, retry_after_us, reset_after_us, now_us] = reply;
  return { allowed: allowed === 1, remaining, retry_after_us, reset_after_us, now_us };
}

serve(check);
