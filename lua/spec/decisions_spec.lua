-- What each limiter decides, on a real server whose clock the specs set.

local rlctl = require("rlctl")
local server = require("spec.server")

local START = 1700000000123456 -- in the middle of every window
local SECOND = 1000000 -- µs

local names = require("spec.limiters")

-- The rules with an edge of their own at one window after the request.
local logs = { "sliding-log", "compact-log" }

local function each(list, test)
  for _, name in ipairs(list) do
    it(name, function() test(name) end)
  end
end

describe("a limiter", function()
  local redis

  setup(function() redis = server.start() end)
  teardown(function() redis:close() end)
  before_each(function()
    redis:set(START)
    redis.client:flushdb()
  end)

  local function limiter(name, limit, window) return redis:limiter{ limiter = name, limit = limit, window = window } end

  local function take(l, client, times)
    local allowed = 0
    for _ = 1, times do
      if l:check(client) then allowed = allowed + 1 end
    end
    return allowed
  end

  -- What a request of the client is told, without the whole decision.
  local function answer(l, cost, id)
    local allowed, remaining, retry_after = l:check("client", cost, id)
    return { allowed, remaining, retry_after }
  end

  describe("admits exactly the limit, then refuses:", function()
    each(names, function(name)
      local l = limiter(name, 5, 60)
      for left = 4, 0, -1 do
        local allowed, remaining, retry_after, decision = l:check("client")
        assert.same({ true, left, 0 }, { allowed, remaining, retry_after })
        assert.is_true(decision.reset_after > 0)
        assert.equal(START, decision.server_time_us)
        assert.is_false(decision.degraded)
      end
      for _ = 1, 5 do
        local told = answer(l)
        assert.same({ false, 0 }, { told[1], told[2] })
        assert.is_true(told[3] > 0)
      end
    end)
  end)

  describe("forgets each request one window after it:", function()
    each(logs, function(name)
      local l = limiter(name, 3, 10)
      for _, second in ipairs{ 0, 4, 8 } do
        redis:set(START + second * SECOND)
        assert.is_true((l:check("client")))
      end
      for _, second in ipairs{ 10, 14, 18, 20, 24 } do
        redis:set(START + second * SECOND - 1)
        assert.is_false((l:check("client")))
        redis:set(START + second * SECOND)
        assert.is_true((l:check("client")))
        assert.is_false((l:check("client")))
      end
    end)
  end)

  describe("counts a request up to a µs before the window's edge, and not at it:", function()
    each(logs, function(name)
      local l = limiter(name, 1, 10)
      for offset, allowed in pairs{ [-1] = false, [0] = true, [1] = true } do
        local client = "client" .. offset
        redis:set(START)
        assert.is_true((l:check(client)))
        redis:set(START + 10 * SECOND + offset)
        assert.equal(allowed, (l:check(client)))
      end
    end)
  end)

  it("of aligned windows starts anew at the edge of the epoch's window, not a µs before", function()
    local l = limiter("fixed-window", 2, 10)
    local edge = math.ceil(START / (10 * SECOND)) * 10 * SECOND
    redis:set(edge - 1)
    assert.equal(2, take(l, "client", 3))
    redis:set(edge)
    assert.equal(2, take(l, "client", 3))
    redis:set(edge + 1)
    assert.equal(0, take(l, "client", 1))
  end)

  describe("is honest about retry_after to the µs:", function()
    each(names, function(name)
      local l = limiter(name, 7, 0.999)
      for _, cost in ipairs{ 1, 3, 7 } do
        redis:set(START)
        redis.client:flushdb()
        take(l, "client", 7)
        redis:pass(1234)
        local allowed, _, retry_after, decision = l:check("client", cost)
        assert.is_false(allowed)
        assert.equal(decision.retry_after_us, math.floor(retry_after * SECOND + 0.5))
        redis:pass(decision.retry_after_us - 1)
        assert.is_false((l:check("client", cost)))
        redis:pass(1)
        assert.is_true((l:check("client", cost)))
      end
    end)
  end)

  describe("tells what can never be allowed from what must wait:", function()
    each(names, function(name)
      local l = limiter(name, 5, 60)
      local allowed, remaining, retry_after, decision = l:check("client", 6)
      assert.same({ false, 5, rlctl.NEVER }, { allowed, remaining, retry_after })
      assert.equal(-1, decision.retry_after_us)
      assert.is_true((l:check("client", 5)))
      assert.is_true((select(3, l:check("client", 5)) > 0))
    end)
  end)

  describe("peeks at cost 0:", function()
    each(names, function(name)
      local l = limiter(name, 2, 60)
      for _ = 1, 3 do assert.same({ true, 2, 0 }, answer(l, 0)) end
      assert.is_false(redis.client:exists(rlctl.key("ratelimit", "client", name)))
      assert.equal(2, take(l, "client", 3))
      assert.same({ true, 0, 0 }, answer(l, 0))
    end)
  end)

  describe("keeps clients apart, whatever bytes they have:", function()
    local clients = { "a", "b", "}", "}x", "{", "a{b}c", "%7D", "%", "a b:c\n", "\0", "\0\255", string.rep("x", 4096) }
    each(names, function(name)
      local l = limiter(name, 1, 60)
      for _, client in ipairs(clients) do assert.equal(1, take(l, client, 2), client) end
    end)
  end)

  describe("leaves nothing of an idle client, and nobody's key without a TTL:", function()
    each(names, function(name)
      local l = limiter(name, 5, 1.5)
      local last
      for i = 1, 20 do
        local client = "client" .. i % 4
        last = select(4, l:check(client, i % 3))
        local key = rlctl.key("ratelimit", client, name)
        if redis.client:exists(key) then assert.is_true(redis.client:pttl(key) > 0) end
        redis:pass(1000)
      end
      redis:pass(math.max(last.reset_after_us, 3 * SECOND))
      for i = 0, 3 do assert.is_false(redis.client:exists(rlctl.key("ratelimit", "client" .. i, name))) end
      assert.is_nil(redis.client:randomkey())
    end)
  end)

  describe("counts 1,000 requests of one µs as 1,000:", function()
    each(names, function(name)
      assert.equal(1000, take(limiter(name, 1000, 60), "client", 1010))
    end)
  end)

  it("with a log holds an entry for each of them", function()
    take(limiter("sliding-log", 1000, 60), "client", 1010)
    assert.equal(1000, redis.client:zcard(rlctl.key("ratelimit", "client", "sliding-log")))
    take(limiter("compact-log", 1000, 60), "client", 1010)
    assert.equal(1000, redis.client:llen(rlctl.key("ratelimit", "client", "compact-log")))
  end)

  it("with a log counts an id once", function()
    local l = limiter("sliding-log", 2, 60)
    for _ = 1, 3 do assert.same({ true, 1, 0 }, answer(l, 1, "mine")) end
    assert.same({ true, 0, 0 }, answer(l, 1, "another"))
  end)

  it("with another prefix has another account", function()
    local l = redis:limiter{ limiter = "gcra", limit = 1, prefix = "per-minute" }
    assert.equal(1, take(limiter("gcra", 1, 60), "client", 2))
    assert.equal(1, take(l, "client", 2))
    assert.is_true(redis.client:exists("per-minute:{client}:gcra"))
  end)

  it("that is a bucket takes its burst", function()
    assert.equal(9, take(redis:limiter{ limiter = "token-bucket", limit = 3, burst = 9 }, "client", 12))
  end)
end)
