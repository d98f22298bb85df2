-- The Lua client behind the protocol of docs/worker.md, for rlctl to try.
--
--     rlctl race 'exec:lua5.1 examples/workers/worker.lua' sliding-log --procs 20 --limit 100
--
-- The client is redis-lua's; JSON is dkjson, which comes with busted.
local here = string.match(arg[0], "^(.*)/[^/]*$") or "."
package.path = here .. "/../../lua/?.lua;" .. package.path
local json = require("dkjson")
local rlctl = require("rlctl")

local limiter

local function open(o)
  if limiter then limiter:close() end
  limiter = rlctl.new{
    limiter = o.limiter, limit = o.limit, window = o.window_us / 1e6, burst = o.burst, prefix = o.prefix, url = o.redis,
    timeout = o.timeout_ms > 0 and o.timeout_ms / 1000 or 3600,
  }
  return { ready = true, protocol = "rlctl.worker/v1" }
end

-- dkjson writes 14 digits, and a time in µs has 16.
local function whole(n)
  return n and setmetatable({}, { __tojson = function() return string.format("%.0f", n) end })
end

local function check(request)
  local ok, allowed, _, _, decision = pcall(limiter.check, limiter, request.key, request.cost, request.request)
  if not ok then return { id = request.id, error = tostring(allowed), counted = allowed.unknown == true } end
  return {
    id = request.id, allowed = decision.allowed, remaining = whole(decision.remaining),
    retry_after_us = whole(decision.retry_after_us), reset_after_us = whole(decision.reset_after_us),
    now_us = whole(decision.server_time_us),
  }
end

for line in io.lines() do
  local request = json.decode(line)
  io.write(json.encode(request.open and open(request.open) or check(request)), "\n")
  io.flush()
end
