-- A process of its own that asks for one client, once the gate opens. Arguments: socket, limiter, limit, gate, attempts.
--
-- It prints `ready` when it is connected, waits until somebody opens the gate (a FIFO) for writing, asks as often as it is
-- told, and prints the ids of the requests that were admitted; then when it began and ended, and how many were denied.
--
-- The limiter `naive` is one that must not hold: it reads the count, compares, and then adds to it.

local redis = require("redis")
local rlctl = require("rlctl")
local socket = require("socket")

local path, name, limit, gate, attempts = unpack(arg)
limit, attempts = tonumber(limit), tonumber(attempts)

local function naive()
  local client, count = redis.connect{ scheme = "unix", path = path }, 0
  return function()
    if tonumber(client:get("naive") or 0) >= limit then return false end
    client:incr("naive")
    count = count + 1
    return true, nil, nil, { id = "naive" .. count }
  end
end

local function ours()
  local l = rlctl.new{ socket = path, limiter = name, limit = limit, window = 366 * 86400, timeout = 20 }
  l:check("client", 0)
  return function() return l:check("client") end
end

local function run()
  local check = name == "naive" and naive() or ours()
  print("ready")
  assert(io.open(gate)):close()
  local began, admitted, denied = socket.gettime(), {}, 0
  for _ = 1, attempts do
    local allowed, _, _, decision = check()
    if allowed then admitted[#admitted + 1] = decision.id else denied = denied + 1 end
  end
  local ended = socket.gettime()
  for _, id in ipairs(admitted) do print(id) end
  print(string.format("%.6f %.6f %d", began, ended, denied))
end

io.stdout:setvbuf("line")
local done, problem = pcall(run)
if not done then print(tostring(problem)) end
