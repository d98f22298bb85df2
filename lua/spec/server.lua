--- Private Redis servers for the specs, whose clock they can set.
--
-- `rlctl keeper` starts a server on a Unix socket in a fresh 0700 folder and takes both away when its stdin ends, which
-- it also does when the specs die. It takes the server's options and then orders, a JSON value a line, and answers each
-- with a report. io.popen has one direction only: its pipe is the keeper's stdin, and a FIFO the keeper's stdout.

local json = require("dkjson")
local redis = require("redis")
local rlctl = require("rlctl")

local Server = {}
Server.__index = Server

local function quote(text) return "'" .. string.gsub(text, "'", "'\\''") .. "'" end

--- Runs a shell command and returns the first line that it prints.
local function line_of(command)
  local pipe = assert(io.popen(command))
  local line = pipe:read("*l")
  pipe:close()
  return line
end

local server = { quote = quote }

--- Makes a folder that only its owner may enter.
function server.folder() return assert(line_of("mktemp -d"), "mktemp made no folder") end

function server.remove(folder) os.execute("rm -rf " .. quote(folder)) end

--- Starts a server with a settable clock, which runs on the real time until it is set.
function server.start()
  local folder = server.folder()
  local reports = folder .. "/reports"
  assert(os.execute("mkfifo " .. quote(reports)) == 0, "mkfifo failed")
  local program = os.getenv("RLCTL") or "../bin/rlctl"
  local s = setmetatable({ keeper = io.popen("exec " .. quote(program) .. " keeper >" .. quote(reports), "w") }, Server)
  s.reports = io.open(reports)
  server.remove(folder)
  s.keeper:setvbuf("line")
  local told = s:order{ clock = true }
  s.socket, s.pid = told.socket, told.pid
  s.word = assert(io.open(told.dir .. "/clock.word", "r+b"))
  s.word:setvbuf("no")
  s.client = redis.connect{ scheme = "unix", path = s.socket }
  return s
end

--- Gives the keeper options or an order ("stop", "continue", "restart"), and returns what it answers.
function Server:order(order)
  self.keeper:write(json.encode(order), "\n")
  local line = self.reports:read("*l")
  local told = line and json.decode(line) or {}
  if not line or told.error then error(told.error or "there is no keeper; build it with: make build", 2) end
  return told
end

--- Stops the server's clock at so many µs after the epoch.
function Server:set(us)
  self.now = us
  local bytes = {}
  for i = 1, 7 do
    bytes[i] = string.char(us % 256)
    us = math.floor(us / 256)
  end
  self.word:seek("set", 0)
  self.word:write(table.concat(bytes), "\64") -- the two highest bits are the mode: 1 is frozen
end

--- Lets so many µs pass.
function Server:pass(us) self:set(self.now + us) end

--- How often the server ran a command since the last reset, and forgets it: `calls` and `failed`.
function Server:take_count(command)
  local stats = self.client:raw_cmd("INFO commandstats")
  self.client:raw_cmd("CONFIG RESETSTAT")
  local calls, rejected, failed =
    string.match(stats, "cmdstat_" .. command .. ":calls=(%d+),.-rejected_calls=(%d+),failed_calls=(%d+)")
  return tonumber(calls or 0) + tonumber(rejected or 0), tonumber(failed or 0)
end

--- Makes a limiter on this server. What the settings leave out is a sliding log.
function Server:limiter(settings)
  local s = { socket = self.socket, timeout = 10 }
  for name, value in pairs(settings) do s[name] = value end
  return rlctl.new(s)
end

--- Starts anew on the same socket, without data and scripts.
function Server:restart()
  self:order("restart")
  self.client = redis.connect{ scheme = "unix", path = self.socket }
end

function Server:close()
  self.word:close()
  self.keeper:close()
  self.reports:close()
end

return server
