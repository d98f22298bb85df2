// The little of Redis's protocol that the worker here needs, and the loop that answers rlctl.
'use strict';
const net = require('net');
const readline = require('readline');

class RedisError extends Error {}

// connect returns a function that sends a command and promises its reply.
function connect(url, timeoutMS) {
  const at = new URL(url);
  const socket = at.protocol === 'unix:'
    ? net.connect(decodeURIComponent(at.pathname))
    : net.connect(Number(at.port), at.hostname);
  socket.setTimeout(timeoutMS, () => waiting.length && socket.destroy(new Error('Redis did not answer')));
  let unread = Buffer.alloc(0);
  const waiting = [];
  const fail = (error) => { redis.dead = true; waiting.splice(0).forEach((w) => w.reject(error)); };
  socket.on('error', fail).on('close', () => fail(new Error('the connection to Redis ended')));
  socket.on('data', (bytes) => {
    unread = Buffer.concat([unread, bytes]);
    for (let got; waiting.length && (got = parse(unread, 0)); unread = unread.subarray(got.end)) {
      const { resolve, reject } = waiting.shift();
      got.value instanceof RedisError ? reject(got.value) : resolve(got.value);
    }
  });
  const redis = (...words) => new Promise((resolve, reject) => {
    if (redis.dead) return reject(new Error('the connection to Redis ended'));
    waiting.push({ resolve, reject });
    socket.write(`*${words.length}\r\n` + words.map((w) => `$${Buffer.byteLength(String(w))}\r\n${w}\r\n`).join(''));
  });
  const db = at.searchParams.get('db') ?? (at.protocol === 'unix:' ? '' : at.pathname.slice(1));
  const login = [at.username, at.password].filter(Boolean).map(decodeURIComponent);
  if (login.length) redis('AUTH', ...login).catch(fail);
  if (db && db !== '0') redis('SELECT', db).catch(fail);
  return redis;
}

// parse reads the value that begins at a byte; undefined until all of it is there.
function parse(bytes, at) {
  const line = bytes.indexOf('\r\n', at);
  if (line < 0) return undefined;
  const kind = String.fromCharCode(bytes[at]);
  const rest = bytes.toString('utf8', at + 1, line);
  let end = line + 2;
  if (kind === ':') return { value: Number(rest), end };
  if (kind === '-') return { value: new RedisError(rest), end };
  if (kind === '$' && rest !== '-1') {
    const last = end + Number(rest);
    return bytes.length < last + 2 ? undefined : { value: bytes.toString('utf8', end, last), end: last + 2 };
  }
  if (kind !== '*') return { value: kind === '$' ? null : rest, end };
  const value = [];
  for (let n = Number(rest); n > 0; n--) {
    const element = parse(bytes, end);
    if (!element) return undefined;
    value.push(element.value);
    end = element.end;
  }
  return { value, end };
}

// serve answers rlctl: check(redis, rule, request) promises the fields of an answer.
function serve(check) {
  let rule, redis;
  const say = (answer) => process.stdout.write(JSON.stringify(answer) + '\n');
  const lines = readline.createInterface({ input: process.stdin });
  lines.on('line', (line) => {
    const request = JSON.parse(line);
    if (request.open) {
      if (rule?.redis !== request.open.redis) redis = undefined;
      rule = request.open;
      return say({ ready: true, protocol: 'rlctl.worker/v1' });
    }
    if (!redis || redis.dead) redis = connect(rule.redis, rule.timeout_ms);
    check(redis, rule, request).then(
      (answer) => say({ id: request.id, ...answer }),
      (error) => say({ id: request.id, error: error.message }),
    );
  });
  lines.on('close', () => process.exit());
}

module.exports = { serve };
