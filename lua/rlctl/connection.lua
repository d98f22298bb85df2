--- One connection to Redis, for limiters.
--
-- redis-lua writes commands and reads replies. What it leaves open is here: a deadline over a whole request, Unix sockets
-- included; a connection that is dropped after a failure, so that a late reply is never taken for the answer to another
-- request; and failures that say whether the command may have run.
--
-- The deadline is kept on the wall clock, the only one that LuaSocket has. A step back cannot lengthen one wait beyond
-- the timeout.
--
-- @module rlctl.connection

local redis = require("redis")
local socket = require("socket")
local url = require("socket.url")

local connection = {}

local Connection = {}
Connection.__index = Connection

local Failure = {}

--- Tells what this module raises: a table of `class`, `unknown` and `message`.
function connection.is_failure(value) return getmetatable(value) == Failure end

-- What was being done when a command failed. Only EVALSHA can have counted a request.
local acts = { auth = "log in", select = "select the database", script = "load the script", evalsha = "run the script" }

--- Raises a failure of the command that is under way.
function Connection:raise(f)
  local act = acts[self.command]
  error(setmetatable({
    class = f.class, unknown = f.unknown and self.command == "evalsha",
    message = act and act .. ": " .. f.message or f.message,
  }, Failure), 0)
end

-- The first words with which Redis refuses a command or the first write of a script, and a script its arguments.
local refusals = {
  INVALID = "invalid", NOSCRIPT = "no-script", WRONGTYPE = "wrong-type",
  NOAUTH = "auth", WRONGPASS = "auth", NOPERM = "auth", LOADING = "loading", BUSY = "busy", OOM = "oom",
  READONLY = "read-only", MISCONF = "read-only", NOREPLICAS = "read-only", MASTERDOWN = "read-only",
  MOVED = "cluster", ASK = "cluster", TRYAGAIN = "cluster", CLUSTERDOWN = "cluster", CROSSSLOT = "cluster",
}

-- take_apart removes from an error reply what Redis before and from 7.0 on says about the place in a script, and a
-- command's arguments, which may be a password.
local function take_apart(text)
  text = string.gsub(text, "^ERR Error running script %(call to [^)]*%): ", "@")
  text = string.gsub(text, "^@@?user_script:%d+: ", "@")
  local body, place = string.match(text, "^(.-)( script: %x*,? ?on @?user_script:.*)$")
  local in_script = place ~= nil or string.sub(text, 1, 1) == "@"
  text = string.gsub(body or text, "^@", "")
  text = string.gsub(text, "^(E?R?R? ?)@?user_script:%d+: ", "%1")
  text = string.gsub(text, "^ERR ", "")
  text = string.gsub(text, ", with args beginning with.*$", "")
  return text, in_script
end

-- A refusal is what Redis said instead of a reply. It comes before anything is counted, except in a script for what can
-- as well come between two of its writes: a right that is missing, or a key of another type.
local Refusal = {}

local function refusal(said)
  local text, in_script = take_apart(said)
  local code = string.match(text, "^(%u+)[ ]") or "ERR"
  local class = refusals[code]
  local unknown = in_script and (class == nil or class == "wrong-type" or class == "auth")
  if not class then
    local denied = string.find(text, "user executing the script can't", 1, true) or string.find(text, "ACL failure", 1, true)
    class = in_script and (denied and "auth" or "script") or "other"
  end
  return setmetatable({ code = code, class = class, unknown = unknown, message = text }, Refusal)
end

-- parse reads a URL into settings, or returns nil and what is wrong with it.
local function parse(text)
  local u = type(text) == "string" and url.parse(text)
  local path = u and u.path and url.unescape(u.path) or ""
  local s = u and { user = u.user and url.unescape(u.user), password = u.password and url.unescape(u.password) }
  if s and u.scheme == "redis" and (path == "" or string.find(path, "^/%d*$")) then
    s.host, s.port, s.db = u.host, tonumber(u.port), tonumber(string.sub(path, 2))
  elseif s and u.scheme == "unix" and path ~= "" then
    s.socket, s.db = path, u.query and tonumber(string.match(u.query, "^db=(%d+)$"))
  else
    return nil, "url must be redis://[[USER]:PASSWORD@]HOST[:PORT][/DB] or unix://[[USER]:PASSWORD@]PATH[?db=DB]"
  end
  if s.user == "" then s.user = nil end
  return s
end

--- Makes a connection, and does not open it.
-- @param settings `url`, `socket`, `host`, `port`, `user`, `password`, `db`. What a URL says goes before the others
-- @return the connection, or nil and what is wrong with the settings
function connection.new(settings)
  local said, problem = {}, nil
  if settings.url ~= nil then
    said, problem = parse(settings.url)
    if not said then return nil, problem end
  end
  local c = setmetatable({}, Connection)
  for _, name in ipairs{ "socket", "host", "port", "user", "password", "db" } do
    c[name] = said[name] or settings[name]
  end
  return c
end

-- left is how many seconds the present request still has.
function Connection:left()
  return math.max(0, math.min(self.timeout, self.deadline - socket.gettime()))
end

-- write and read are called by redis-lua.
function Connection:write(buffer)
  self.link:settimeout(self:left(), "t")
  local sent, problem, last = self.link:send(buffer)
  if sent then return end
  self:close()
  local some = last and last > 0
  self:raise{ class = some and "no-answer" or "unreachable", unknown = some, message = problem }
end

function Connection:read(length)
  self.link:settimeout(self:left(), "t")
  local line, problem = self.link:receive(length or "*l")
  if line then return line end
  self:close()
  self:raise{ class = "no-answer", unknown = true, message = problem }
end

-- said is called by redis-lua with an error. An error reply is a reply like others; all else is rubbish, after which
-- the connection is of no use.
function Connection:said(message)
  local text = string.match(message, "^redis error: (.*)$")
  if text then return refusal(text) end
  self:close()
  self:raise{ class = "script", unknown = true, message = message }
end

--- Sends a command and returns its reply; or nil and the refusal, which has `code`, `class`, `unknown` and `message`.
function Connection:call(command, ...)
  self.command = command
  local reply = self.client[command](self.client, ...)
  if getmetatable(reply) == Refusal then return nil, reply end
  return reply
end

-- alive tells whether the server has neither closed the connection nor left anything on it. A request that is sent on a
-- closed one would be lost, and nobody could tell whether it was counted.
function Connection:alive()
  if not self.link then return false end
  self.link:settimeout(0, "t")
  local _, problem = self.link:receive(1)
  return problem == "timeout"
end

function Connection:dial()
  local link, ok, problem
  if self.socket then
    link = require("socket.unix")()
    link:settimeout(self:left(), "t")
    ok, problem = link:connect(self.socket)
  else
    link = socket.tcp()
    link:settimeout(self:left(), "t")
    ok, problem = link:connect(self.host, self.port)
    if ok then link:setoption("tcp-nodelay", true) end
  end
  if not ok then
    link:close()
    self:raise{ class = "unreachable", unknown = false, message = "connect: " .. problem }
  end
  self.link = link
end

-- must sends a command of the connection's own, without which it is of no use.
function Connection:must(...)
  local _, refused = self:call(...)
  if not refused then return end
  self:close()
  self:raise(refused)
end

--- Begins a request of at most so many seconds. Connects and logs in where there is no connection that is alive.
function Connection:open(timeout)
  self.command, self.timeout, self.deadline = nil, timeout, socket.gettime() + timeout
  if self:alive() then return end
  self:close()
  self:dial()
  self.client = redis.connect{ socket = self.link }
  self.client.network.write = function(_, buffer) return self:write(buffer) end
  self.client.network.read = function(_, length) return self:read(length) end
  self.client.error = function(message) return self:said(message) end
  if self.user then
    self:must("auth", self.user, self.password or "")
  elseif self.password then
    self:must("auth", self.password)
  end
  if self.db ~= 0 then self:must("select", string.format("%d", self.db)) end
end

--- Closes the connection.
function Connection:close()
  if self.link then self.link:close() end
  self.link, self.client = nil, nil
end

return connection
