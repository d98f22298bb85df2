--- Rate limiters that decide inside Redis, from Lua.
--
-- Each limiter is one script of the folder `scripts`, the same file that the Go library sends; this module holds no
-- copy and no rule. It loads the script once (SCRIPT LOAD), asks with EVALSHA, and decodes five integers. A server that
-- forgot the script, by a restart, a failover or SCRIPT FLUSH, says NOSCRIPT, which proves that nothing ran: then the
-- script is loaded and the request sent once more. Nothing else is ever sent again, since a request whose answer was
-- lost may have been counted.
--
--     local limiter = require("rlctl").new{ limit = 100, window = 60 }
--     local allowed, remaining, retry_after = limiter:check("client-1")
--
-- A limiter has one connection, which it opens when it is first asked and again when it was lost. It serves one request
-- at a time. Make it after a fork, or at least ask it first after the fork: connection and ids are drawn then.
--
-- What it gives up: TLS, and following the redirections of a cluster; both are errors here.
--
-- @module rlctl

local connection = require("rlctl.connection")

local rlctl = {}

--- The retry_after of a request whose cost exceeds the capacity: waiting does not help.
rlctl.NEVER = -1

-- Redis answers at once or is in trouble; who is denied in its stead may come back after this many seconds.
local DEGRADED_RETRY = 1

local MAX_COST = 9007199254740991 -- 2^53 - 1
local MAX_EVENTS = 1000000000
local MIN_WINDOW, MAX_WINDOW = 1000, 366 * 86400 * 1000000 -- µs
local MAX_CLIENT, MAX_ID = 65536, 256 -- bytes

--- A request that was not decided, or a setting that was refused: what `new` and `check` raise. It prints itself with
-- tostring.
-- @field limiter name of the limiter
-- @field class   kind: invalid, unreachable, no-answer, auth, loading, busy, read-only, oom, wrong-type, cluster,
--                no-script, script, other
-- @field unknown true if the request may have been counted all the same
-- @field message what was refused, or what Redis or the network said
-- @field id      the request's id, with which `sliding-log` can be asked again and counts nothing twice
-- @table Error
local Error = {}
Error.__index = Error

function Error:__tostring()
  local text = self.limiter .. ": " .. self.class .. ": " .. self.message
  return self.unknown and text .. " (the request may have been counted)" or text
end

local function refuse(limiter, message)
  error(setmetatable({ limiter = limiter, class = "invalid", unknown = false, message = message }, Error), 0)
end

local function is_whole(value, low, high)
  return type(value) == "number" and value >= low and value <= high and value % 1 == 0
end

-- tostring writes 14 digits and would lose the last of large numbers.
local function decimal(number) return string.format("%.0f", number) end

-- Where this file lies, with a slash at the end.
local here = string.match(string.sub(debug.getinfo(1, "S").source, 2), "^(.*/)") or "./"

-- source reads a script: from the folder that was set, else from where the rock installs it, else from a checkout.
local function source(name, folder)
  local folders = folder and { folder .. "/" } or { here .. "rlctl/scripts/", here .. "../scripts/" }
  for _, f in ipairs(folders) do
    local file = string.find(name, "^[%w-]+$") and io.open(f .. name .. ".lua", "rb")
    if file then
      local text = file:read("*a")
      file:close()
      return text
    end
  end
  refuse(name, "limiter must be the name of a script in " .. table.concat(folders, " or "))
end

-- What `new` accepts, and what holds where nothing is said.
local defaults = {
  limiter = "sliding-log", window = 60, burst = 0, prefix = "ratelimit", on_failure = "error", timeout = 1,
  host = "127.0.0.1", port = 6379, db = 0,
}
local others = { limit = true, scripts = true, url = true, socket = true, user = true, password = true }
local policies = { error = true, allow = true, deny = true }

local function with_defaults(settings)
  local s = setmetatable({}, { __index = defaults })
  for name, value in pairs(settings) do
    if defaults[name] == nil and not others[name] then
      refuse(tostring(settings.limiter or defaults.limiter), "there is no setting " .. tostring(name))
    end
    s[name] = value
  end
  return s
end

-- The window in whole µs. Seconds such as 1.1 are no whole µs in binary, by far less than one.
local function window_us(seconds)
  local us = type(seconds) == "number" and math.floor(seconds * 1e6 + 0.5)
  return us and math.abs(us - seconds * 1e6) < 0.01 and is_whole(us, MIN_WINDOW, MAX_WINDOW) and us
end

local function check_settings(s)
  local bad = type(s.limiter) ~= "string" and "limiter must be the name of a script"
    or not is_whole(s.limit, 0, MAX_EVENTS) and "limit must be 0 to 1000000000 events"
    or not window_us(s.window) and "window must be 0.001 to 31622400 seconds (366 days), in whole microseconds"
    or not is_whole(s.burst, 0, MAX_EVENTS) and "burst must be 0 to 1000000000 events"
    or (type(s.prefix) ~= "string" or string.find(s.prefix, "{", 1, true)) and "prefix must be a string without {"
    or not policies[s.on_failure] and "on_failure must be error, allow or deny"
    or not (type(s.timeout) == "number" and s.timeout > 0 and s.timeout < math.huge) and "timeout must be seconds above 0"
  if bad then refuse(tostring(s.limiter), bad) end
end

local Limiter = {}
Limiter.__index = Limiter

--- Makes a limiter. It reads the script and does no network I/O.
--
-- @param settings table of
--
--   - `limit`: events a window, 0 to 10^9; 0 denies everything. The only one without a default
--   - `limiter`: name of a script, "sliding-log" by default
--   - `window`: seconds, 0.001 to 366 days, 60 by default
--   - `burst`: capacity of a bucket, 0 to 10^9; 0, the default, means `limit`. Windows and logs ignore it
--   - `prefix`: first word of every key, "ratelimit" by default. Two limits on one client want two prefixes
--   - `on_failure`: what `check` does when Redis did not decide: "error" (the default) raises, "allow" lets the
--     request pass, "deny" refuses it
--   - `timeout`: seconds for a whole check, connecting included, 1 by default. A name that has to be resolved is not
--     in it
--   - `socket`: path of a Unix socket; or `host` and `port`, 127.0.0.1 and 6379 by default; or `url`, which is
--     redis://[[USER]:PASSWORD@]HOST[:PORT][/DB] or unix://[[USER]:PASSWORD@]PATH[?db=DB]
--   - `user`, `password`, `db`: for AUTH and SELECT
--   - `scripts`: folder of the scripts; by default they are found beside this file
-- @return the limiter
-- @raise Error of class "invalid" that names the setting at fault
function rlctl.new(settings)
  local s = with_defaults(settings)
  check_settings(s)
  local server, problem = connection.new(s)
  if not server then refuse(s.limiter, problem) end
  return setmetatable({
    name = s.limiter, source = source(s.limiter, s.scripts), prefix = s.prefix,
    limit = decimal(s.limit), window = decimal(window_us(s.window)), burst = decimal(s.burst),
    on_failure = s.on_failure, timeout = s.timeout, server = server, count = 0,
  }, Limiter)
end

--- The key under which a limiter keeps what a client has used: PREFIX:{CLIENT}:LIMITER. Bytes % and } of the client's
-- id are written %25 and %7D, so that distinct clients never share a key and all keys of one lie in one cluster slot.
function rlctl.key(prefix, client_id, limiter)
  local escaped = string.gsub(client_id, "[%%}]", { ["%"] = "%25", ["}"] = "%7D" })
  return prefix .. ":{" .. escaped .. "}:" .. limiter
end

local digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

-- 12 characters that nobody else draws: 72 bits of the system's.
local function draw()
  local file = assert(io.open("/dev/urandom", "rb"))
  file:setvbuf("no")
  local bytes = file:read(9)
  file:close()
  local drawn = string.gsub(bytes, "(.)(.)(.)", function(a, b, c)
    local n = string.byte(a) * 65536 + string.byte(b) * 256 + string.byte(c)
    return string.gsub("\3\2\1\0", ".", function(place)
      local digit = math.floor(n / 64 ^ string.byte(place)) % 64
      return string.sub(digits, digit + 1, digit + 1)
    end)
  end)
  return drawn
end

-- next_id makes an id for a request: what was drawn once, and a count. Ids are unique over processes and restarts
-- without any agreement between them, and short, since a log keeps each.
function Limiter:next_id()
  self.drawn = self.drawn or draw()
  self.count = self.count + 1
  return self.drawn .. decimal(self.count)
end

function Limiter:check_request(client_id, cost, id)
  local bad = (type(client_id) ~= "string" or client_id == "" or #client_id > MAX_CLIENT)
      and "client_id must be a string of 1 to 65536 bytes"
    or not is_whole(cost, 0, MAX_COST) and "cost must be a whole number, 0 to 9007199254740991"
    or id ~= nil and (type(id) ~= "string" or id == "" or #id > MAX_ID) and "id must be a string of 1 to 256 bytes"
  if bad then refuse(self.name, bad) end
end

-- decision is what a reply says. One that breaks the contract is no decision, and never a denial.
local function decision(reply, id)
  if type(reply) ~= "table" or #reply ~= 5 then return nil end
  for i = 1, 5 do
    if not is_whole(reply[i], i == 3 and -1 or 0, i == 1 and 1 or MAX_COST) then return nil end
  end
  local allowed, remaining, retry, reset, now = reply[1], reply[2], reply[3], reply[4], reply[5]
  if (allowed == 1) ~= (retry == 0) then return nil end
  return {
    allowed = allowed == 1, remaining = remaining, retry_after = retry < 0 and rlctl.NEVER or retry / 1e6,
    reset_after = reset / 1e6, retry_after_us = retry, reset_after_us = reset, server_time_us = now,
    degraded = false, id = id,
  }
end

-- load makes the server know the script, and learns the digest by which EVALSHA names it.
function Limiter:load()
  local sha, refused = self.server:call("script", "load", self.source)
  if refused then self.server:raise(refused) end
  self.sha = sha
end

function Limiter:send(key, cost, id)
  return self.server:call("evalsha", self.sha, "1", key, self.limit, self.window, self.burst, decimal(cost), id, "0")
end

function Limiter:ask(key, cost, id)
  self.server:open(self.timeout)
  if not self.sha then self:load() end
  local reply, refused = self:send(key, cost, id)
  if refused and refused.code == "NOSCRIPT" then
    self:load()
    reply, refused = self:send(key, cost, id)
  end
  if refused then self.server:raise(refused) end
  return decision(reply, id) or self.server:raise{
    class = "script", unknown = true,
    message = "the reply is not the five integers allowed, remaining, retry_us, reset_us, now_us",
  }
end

-- fail does what the policy says when Redis did not decide. What the script refused is the caller's mistake, not a
-- failure; and what is no failure at all is a defect.
function Limiter:fail(failure, id)
  if not connection.is_failure(failure) then error(failure, 0) end
  local err = setmetatable({
    limiter = self.name, class = failure.class, unknown = failure.unknown, message = failure.message, id = id,
  }, Error)
  if self.on_failure == "error" or err.class == "invalid" then error(err, 0) end
  local allowed = self.on_failure == "allow"
  return {
    allowed = allowed, remaining = 0, retry_after = allowed and 0 or DEGRADED_RETRY, degraded = true, error = err, id = id,
  }
end

--- Takes events from a client, in one script call.
--
-- @param client_id string of 1 to 65536 bytes, any
-- @param cost whole number of events, 0 to 2^53 - 1; 1 by default. 0 peeks: it is allowed and tells the rest
-- @param id of the request, 1 to 256 bytes; one that no other request has by default. `sliding-log` counts an id that it
--   holds no second time, so that a request whose answer was lost can be sent again under the same id
-- @return `allowed`: true or false
-- @return `remaining`: events that would be allowed right after this request
-- @return `retry_after`: seconds until the same request is allowed if nobody else takes, to the µs; 0 if it was
--   allowed, `NEVER` (-1) if its cost exceeds the capacity
-- @return the whole decision, a table: `allowed`, `remaining`, `retry_after`, `reset_after` (seconds until the client is
--   as good as new), the two again in µs as `retry_after_us` and `reset_after_us`, `server_time_us` (the server's clock
--   when it decided), `id`, and `degraded`. Where that is true, the policy answered and not Redis: `error` says why, and
--   there are no times but `retry_after`
-- @raise Error. An error is never a denial. Class "invalid" is raised whatever `on_failure` says
function Limiter:check(client_id, cost, id)
  if cost == nil then cost = 1 end
  self:check_request(client_id, cost, id)
  id = id or self:next_id()
  local decided, d = pcall(self.ask, self, rlctl.key(self.prefix, client_id, self.name), cost, id)
  if not decided then d = self:fail(d, id) end
  return d.allowed, d.remaining, d.retry_after, d
end

--- Closes the connection. The next check opens another.
function Limiter:close() self.server:close() end

return rlctl
