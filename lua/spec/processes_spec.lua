-- Many Lua processes that ask for one client at once.

local names = require("spec.limiters")
local rlctl = require("rlctl")
local server = require("spec.server")
local socket = require("socket")

describe("many processes", function()
  local redis, folder

  setup(function()
    redis, folder = server.start(), server.folder()
    assert(os.execute("mkfifo " .. server.quote(folder .. "/gate")) == 0)
  end)
  teardown(function()
    redis:close()
    server.remove(folder)
  end)
  before_each(function() redis.client:flushdb() end)

  -- What a process printed: ids, and when it ran.
  local function read(process, ids)
    for line in process:lines() do
      local began, ended, denied = string.match(line, "^(%S+) (%S+) (%d+)$")
      if began then return { began = tonumber(began), ended = tonumber(ended), denied = tonumber(denied) } end
      ids[#ids + 1] = line
    end
    error("a process ended early: " .. table.concat(ids, " "))
  end

  -- race lets so many processes ask, all after the last of them is ready. Returns the ids of the requests admitted, how
  -- many were denied, and how many processes had begun before the first of them ended.
  local function race(processes, name, limit, attempts, meanwhile)
    local running, gate, ready = {}, folder .. "/gate", {}
    for i = 1, processes do
      running[i] = assert(io.popen(string.format("exec lua5.1 spec/caller.lua %s %s %d %s %d 2>&1",
        server.quote(redis.socket), name, limit, server.quote(gate), attempts)))
    end
    for i, process in ipairs(running) do ready[i] = process:read("*l") end
    local opened = assert(io.open(gate, "r+")) -- which never waits for a reader, as "w" would
    if meanwhile then meanwhile() end
    local ids, times, denied, first = {}, {}, 0, math.huge
    for i, process in ipairs(running) do
      assert.equal("ready", ready[i])
      times[i] = read(process, ids)
      process:close()
      denied, first = denied + times[i].denied, math.min(first, times[i].ended)
    end
    opened:close()
    local together = 0
    for _, t in ipairs(times) do
      if t.began < first then together = together + 1 end
    end
    return ids, denied, together
  end

  local function distinct(ids)
    local seen, count = {}, 0
    for _, id in ipairs(ids) do
      if not seen[id] then count = count + 1 end
      seen[id] = true
    end
    return count
  end

  for _, name in ipairs(names) do
    it("of 20 never pass 100, and reach it: " .. name, function()
      local ids, denied, together = race(20, name, 100, 20)
      assert.same({ 100, 300 }, { #ids, denied })
      assert.is_true(together > 1)
      assert.equal(100, distinct(ids))
    end)
  end

  it("of 20 pass it where a limiter reads, compares, and then writes", function()
    local most = 0
    for _ = 1, 10 do
      redis.client:flushdb()
      most = math.max(most, #race(20, "naive", 100, 20))
      if most > 100 then break end
    end
    assert.is_true(most > 100)
  end)

  it("of 64 are all answered although the script is flushed in their midst", function()
    local key = rlctl.key("ratelimit", "client", "sliding-log")
    local ids, denied = race(64, "sliding-log", 300, 10, function()
      local deadline = socket.gettime() + 20
      repeat until redis.client:zcard(key) >= 30 or socket.gettime() > deadline
      redis.client:script("flush")
    end)
    assert.same({ 300, 340 }, { #ids, denied })
    assert.equal(300, redis.client:zcard(key))
  end)

  it("and those that come after them never have the same id", function()
    local all = {}
    for _ = 1, 3 do
      for _, id in ipairs((race(10, "gcra", 1000000, 50))) do all[#all + 1] = id end
    end
    assert.equal(1500, #all)
    assert.equal(1500, distinct(all))
  end)
end)
