-- What a caller meets when Redis does not decide: dead, stalled, restarted, without the script, or unwilling.

local rlctl = require("rlctl")
local server = require("spec.server")
local socket = require("socket")

local SLACK = 0.5 -- seconds that a busy machine may add to a timeout

-- The error that a check raises; it fails the spec if there is none.
local function failure(l, ...)
  local decided, err = pcall(l.check, l, ...)
  assert.is_false(decided)
  assert.is_table(err)
  return err
end

local function timed(f)
  local start = socket.gettime()
  f()
  return socket.gettime() - start
end

-- Asks under each policy: what errors raise, and what the others answer in Redis's stead.
local function under_each_policy(settings, class, unknown)
  local function limiter(policy)
    local s = { limit = 5, on_failure = policy }
    for name, value in pairs(settings) do s[name] = value end
    return rlctl.new(s)
  end
  local err = failure(limiter("error"), "client")
  assert.same({ class, unknown }, { err.class, err.unknown })
  for policy, allowed in pairs{ allow = true, deny = false } do
    local told, remaining, retry_after, d = limiter(policy):check("client")
    assert.same({ allowed, 0, allowed and 0 or 1 }, { told, remaining, retry_after })
    assert.is_true(d.degraded)
    assert.same({ class, unknown }, { d.error.class, d.error.unknown })
  end
end

describe("without a server", function()
  it("nothing is sent, and the policy answers", function()
    under_each_policy({ socket = "/nonexistent/redis.sock" }, "unreachable", false)
  end)

  it("on TCP likewise", function()
    local listener = assert(socket.bind("127.0.0.1", 0))
    local _, port = listener:getsockname()
    listener:close()
    local took = timed(function() under_each_policy({ port = port }, "unreachable", false) end)
    assert.is_true(took < SLACK)
    under_each_policy({ url = "redis://127.0.0.1:" .. port }, "unreachable", false)
  end)

  it("the caller's mistakes are raised whatever the policy", function()
    local l = rlctl.new{ limit = 5, socket = "/nonexistent/redis.sock", on_failure = "allow" }
    assert.equal("invalid", failure(l, "").class)
  end)
end)

describe("with a real server", function()
  local redis

  before_each(function() redis = server.start() end)
  after_each(function() redis:close() end)

  local function limiter(settings)
    settings.limit = 5
    return redis:limiter(settings)
  end

  it("that stalls, a check ends with its timeout and may have been counted", function()
    for policy, allowed in pairs{ allow = true, deny = false } do
      local l = limiter{ timeout = 0.2, on_failure = policy }
      assert.equal(4, select(2, l:check(policy)))
      redis:order("stop")
      local told, _, _, d
      local took = timed(function() told, _, _, d = l:check(policy) end)
      redis:order("continue")
      assert.same({ allowed, true, "no-answer", true }, { told, d.degraded, d.error.class, d.error.unknown })
      assert.is_true(took > 0.19 and took < 0.2 + SLACK)
    end
  end)

  it("that stalls, the late answer is not taken for that of the next request", function()
    local l = limiter{ timeout = 0.2 }
    assert.is_true((l:check("client")))
    redis:order("stop")
    local err = failure(l, "client")
    redis:order("continue")
    assert.equal("sliding-log: no-answer: run the script: timeout (the request may have been counted)", tostring(err))
    assert.equal(5, select(2, l:check("another", 0))) -- the client that was lost has 3 left
    assert.equal(3, select(2, l:check("client", 1, err.id))) -- and is not charged twice under its id
  end)

  it("that stalls before the script is loaded, nothing was counted", function()
    redis:order("stop")
    local err = failure(limiter{ timeout = 0.2 }, "client")
    redis:order("continue")
    assert.same({ "no-answer", false }, { err.class, err.unknown })
    assert.equal("sliding-log: no-answer: load the script: timeout", tostring(err))
  end)

  it("loads the script once, and again when it was flushed", function()
    local l = limiter{}
    redis:take_count("evalsha")
    for _ = 1, 3 do l:check("client") end
    assert.equal(3, (redis:take_count("evalsha")))
    l:check("client")
    redis:take_count("script|load")
    redis.client:script("flush")
    assert.equal(0, select(2, l:check("client")))
    assert.equal(1, (redis:take_count("script|load")))
    redis.client:script("flush")
    l:check("client")
    assert.equal(2, (redis:take_count("evalsha")))
    l:check("client")
    assert.equal(1, (redis:take_count("evalsha")))
  end)

  it("that was restarted, the next check is decided", function()
    local l = limiter{}
    for _ = 1, 3 do
      assert.equal(4, select(2, l:check("client")))
      redis:restart()
    end
  end)

  it("that is gone, nothing is sent, and the policy answers", function()
    local doomed = server.start()
    local l = doomed:limiter{ limit = 5, on_failure = "allow" }
    assert.equal(4, select(2, l:check("client")))
    doomed:close()
    local allowed, _, _, d = l:check("client")
    assert.same({ true, true, "unreachable", false }, { allowed, d.degraded, d.error.class, d.error.unknown })
  end)

  it("that refuses, the command was sent once and the error has its class", function()
    local l = limiter{}
    l:check("client")
    local key = rlctl.key("ratelimit", "client", "sliding-log")
    local function refused(class, unknown)
      redis:take_count("evalsha")
      local err = failure(l, "client")
      assert.same({ class, unknown }, { err.class, err.unknown })
      assert.equal(1, (redis:take_count("evalsha")))
    end
    redis.client:raw_cmd("CONFIG SET maxmemory 1")
    refused("oom", false)
    redis.client:raw_cmd("CONFIG SET maxmemory 0")
    redis.client:raw_cmd("REPLICAOF 127.0.0.1 1")
    refused("read-only", false)
    redis.client:raw_cmd("REPLICAOF NO ONE")
    assert.is_true((l:check("client")))
    redis.client:set(key, "something else")
    refused("wrong-type", true)
    redis.client:del(key)
    assert.equal(4, select(2, l:check("client")))
  end)

  it("what the script refuses is the caller's mistake, whatever the policy", function()
    local l = redis:limiter{ limiter = "gcra", limit = 1, window = 366 * 86400, burst = 1e9, on_failure = "allow" }
    assert.equal("gcra: invalid: run the script: INVALID burst: burst * window / limit, the time to refill, is over 2^52 us",
      tostring(failure(l, "client")))
  end)

  it("logs in, with the least rights, and selects", function()
    redis.client:raw_cmd("ACL SETUSER app on >secret ~ratelimit:* -@all +select +evalsha +script|load +time +get +set")
    local l = limiter{ limiter = "gcra", user = "app", password = "secret", db = 3 }
    assert.is_true((l:check("client")))
    redis.client:select(3)
    assert.is_true(redis.client:exists("ratelimit:{client}:gcra"))
    local url = "unix://app:secret@" .. redis.socket .. "?db=3"
    assert.equal(3, select(2, redis:limiter{ limiter = "gcra", limit = 5, url = url, socket = false }:check("client")))
    local wrong = failure(limiter{ user = "app", password = "guess" }, "client")
    assert.same({ "auth", false }, { wrong.class, wrong.unknown })
    assert.is_nil(string.find(tostring(wrong), "guess", 1, true))
    local poor = failure(limiter{ user = "app", password = "secret" }, "client") -- the log calls what app may not
    assert.same({ "auth", true }, { poor.class, poor.unknown })
  end)
end)

describe("an answer", function()
  -- Asks a server of few words, and returns what it saw besides what the client met.
  local function ask(replies, checks, policy, timeout)
    local words = { "exec lua5.1 spec/stub.lua" }
    for _, reply in ipairs(replies) do words[#words + 1] = server.quote(reply) end
    local stub = assert(io.popen(table.concat(words, " ")))
    local port = stub:read("*n", "*l")
    local l = rlctl.new{ limit = 5, host = "127.0.0.1", port = port, timeout = timeout or 10, on_failure = policy }
    local met = {}
    for i = 1, checks do met[i] = { pcall(l.check, l, "client") } end
    l:close()
    assert(socket.connect("127.0.0.1", port)):send("*1\r\n$4\r\nQUIT\r\n")
    local seen = {}
    for line in stub:lines() do seen[#seen + 1] = line end
    stub:close()
    return met, table.concat(seen, " ", 1, #seen - 1) -- the last is the connection that ended it
  end

  local GOOD = "*5\r\n:1\r\n:4\r\n:0\r\n:60000000\r\n:1700000000123456"
  local AT = " script: " .. string.rep("a", 40) .. ", on @user_script:41."

  it("that is five integers is a decision, on TCP too", function()
    local met, seen = ask({ GOOD }, 2)
    assert.same({ true, true, 4, 0 }, { unpack(met[2], 1, 4) })
    assert.equal("connected SCRIPT EVALSHA EVALSHA", seen)
  end)

  it("NOSCRIPT lets the script be loaded and the request be sent once more", function()
    local met, seen = ask({ "-NOSCRIPT No matching script.", GOOD }, 1)
    assert.is_true(met[1][2])
    assert.equal("connected SCRIPT EVALSHA SCRIPT EVALSHA", seen)
  end)

  it("NOSCRIPT twice is an error", function()
    local met, seen = ask({ "-NOSCRIPT No matching script." }, 1)
    assert.same({ "no-script", false }, { met[1][2].class, met[1][2].unknown })
    assert.equal("connected SCRIPT EVALSHA SCRIPT EVALSHA", seen)
  end)

  for text, want in pairs{
    ["OOM command not allowed when used memory > 'maxmemory'."] = { "oom", false },
    ["READONLY You can't write against a read only replica."] = { "read-only", false },
    ["MISCONF Redis is configured to save RDB snapshots"] = { "read-only", false },
    ["LOADING Redis is loading the dataset in memory"] = { "loading", false },
    ["BUSY Redis is busy running a script."] = { "busy", false },
    ["NOAUTH Authentication required."] = { "auth", false },
    ["NOPERM this user has no permissions to run the 'evalsha' command"] = { "auth", false },
    ["MOVED 3999 127.0.0.1:6381"] = { "cluster", false },
    ["INVALID cost: 0 to 9007199254740991"] = { "invalid", false },
    ["ERR max number of clients reached"] = { "other", false },
    ["WRONGTYPE Operation against a key" .. AT] = { "wrong-type", true },
    ["ERR user_script:41: attempt to compare nil with number" .. AT] = { "script", true },
    ["WRONGTYPE Operation against a key, as Valkey 9.1 says it script: on @user_script:41."] = { "wrong-type", true },
    ["ERR The user executing the script can't run this command or subcommand" .. AT] = { "auth", true },
    ["ERR Error running script (call to f_00): @user_script:41: user_script:41: oh"] = { "script", true },
  } do
    it(string.match(text, "^[^ ]+ ..........") .. " is an error, and nothing is sent again", function()
      local met, seen = ask({ "-" .. text, GOOD }, 2)
      local err = met[1][2]
      assert.same(want, { err.class, err.unknown })
      assert.is_nil(string.find(tostring(err), "user_script", 1, true))
      assert.is_true(met[2][2]) -- on the same connection
      assert.equal("connected SCRIPT EVALSHA EVALSHA", seen)
    end)
  end

  for _, rubbish in ipairs{
    "!rubbish", "$-1", ":1", "+OK", "*4\r\n:1\r\n:4\r\n:0\r\n:0", "*5\r\n:2\r\n:4\r\n:0\r\n:0\r\n:1",
    "*5\r\n:0\r\n:0\r\n:0\r\n:0\r\n:1", "*5\r\n:1\r\n:4\r\n:5\r\n:0\r\n:1", "*5\r\n:1\r\n:-4\r\n:0\r\n:0\r\n:1",
    "*5\r\n:1\r\n$1\r\n4\r\n:0\r\n:0\r\n:1", "*5\r\n:1\r\n-ERR oh\r\n:0\r\n:0\r\n:1",
    "*6\r\n:1\r\n:4\r\n:0\r\n:0\r\n:1\r\n:1",
  } do
    it(string.gsub(rubbish, "\r\n", " ") .. " is no decision", function()
      local met, seen = ask({ rubbish, GOOD }, 1)
      assert.same({ "script", true }, { met[1][2].class, met[1][2].unknown })
      assert.equal("connected SCRIPT EVALSHA", seen)
    end)
  end

  it("that does not come leaves open whether the request was counted, and nothing is sent again", function()
    local met, seen = ask({ "close", GOOD }, 2)
    assert.same({ "no-answer", true }, { met[1][2].class, met[1][2].unknown })
    assert.is_true(met[2][2])
    assert.equal("connected SCRIPT EVALSHA connected EVALSHA", seen)
    _, seen = ask({ "close" }, 1, "allow")
    assert.equal("connected SCRIPT EVALSHA", seen)
  end)

  it("that comes line by line does not outlast the timeout", function()
    local met
    local took = timed(function() met = ask({ "dribble" }, 1, "error", 0.2) end)
    assert.same({ "no-answer", true }, { met[1][2].class, met[1][2].unknown })
    assert.is_true(took < 0.2 + 2 * SLACK)
  end)
end)
