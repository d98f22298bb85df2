-- What is refused before anything is sent, and how the module is installed.

local rlctl = require("rlctl")
local server = require("spec.server")
local socket = require("socket")

local function refused(settings)
  local made, err = pcall(rlctl.new, settings)
  assert.is_false(made)
  assert.equal("invalid", err.class)
  return tostring(err)
end

describe("check", function()
  local listener, l

  setup(function()
    listener = assert(socket.bind("127.0.0.1", 0))
    l = rlctl.new{ limit = 5, port = select(2, listener:getsockname()), on_failure = "allow" }
  end)
  teardown(function() listener:close() end)

  for what, arguments in pairs{
    ["no client"] = {}, ["an empty client"] = { "" }, ["a client that is no string"] = { 7 },
    ["a client of 65,537 bytes"] = { string.rep("x", 65537) },
    ["a negative cost"] = { "client", -1 }, ["a fractional cost"] = { "client", 0.5 }, ["NaN"] = { "client", 0 / 0 },
    ["an infinite cost"] = { "client", math.huge }, ["1e21"] = { "client", 1e21 }, ["2^53"] = { "client", 2 ^ 53 },
    ["a cost that is no number"] = { "client", "1" }, ["false for a cost"] = { "client", false },
    ["an empty id"] = { "client", 1, "" }, ["an id of 257 bytes"] = { "client", 1, string.rep("x", 257) },
    ["an id that is no string"] = { "client", 1, 7 },
  } do
    it("refuses " .. what .. " before it connects", function()
      local decided, err = pcall(l.check, l, unpack(arguments, 1, 3))
      assert.is_false(decided)
      assert.equal("invalid", err.class)
      assert.is_false(err.unknown)
      listener:settimeout(0)
      assert.is_nil((listener:accept()))
    end)
  end
end)

describe("new", function()
  it("names the setting that it refuses", function()
    for setting, values in pairs{
      limit = { -1, 0.5, 1e9 + 1, 0 / 0, "5", false }, window = { 0, 0.0009, 1.0000001, 366 * 86400 + 1, 0 / 0, "60" },
      burst = { -1, 1e9 + 1, 0.5 }, prefix = { "a{b", 7 }, on_failure = { "open", true }, timeout = { 0, -1, 0 / 0, math.huge },
      limiter = { "nonsense", "../scripts/gcra", "", "GCRA.lua", "semaphore_acquire", 7 },
      url = { "127.0.0.1", "http://127.0.0.1", "redis://h/x", "unix://", 7 }, limits = { 5 },
    } do
      for _, value in ipairs(values) do
        local settings = { limit = 5 }
        settings[setting] = value
        assert.matches(setting, refused(settings), 1, true)
      end
    end
    assert.matches("limit must be", refused{}, 1, true)
  end)

  it("takes windows that are whole microseconds", function()
    for _, seconds in ipairs{ 0.001, 1.1, 0.999, 1 / 8, 31622400, 31622399.999999 } do
      rlctl.new{ limit = 1, window = seconds }
    end
  end)
end)

describe("a key", function()
  it("is that of other clients in other languages", function()
    for client, key in pairs{
      ["client-1"] = "ratelimit:{client-1}:gcra", ["}"] = "ratelimit:{%7D}:gcra", ["%7D"] = "ratelimit:{%257D}:gcra",
      ["{a}b"] = "ratelimit:{{a%7Db}:gcra", ["a\0b"] = "ratelimit:{a\0b}:gcra",
    } do
      assert.equal(key, rlctl.key("ratelimit", client, "gcra"))
    end
  end)
end)

describe("the rock", function()
  local rock = setmetatable({}, { __index = _G })

  setup(function() setfenv(assert(loadfile("rlctl-scm-1.rockspec")), rock)() end)

  it("installs every limiter's script", function()
    local listed = assert(io.popen("ls ../scripts/*.lua | grep -v semaphore_"))
    for path in listed:lines() do
      local name = string.match(path, "([%w-]+)%.lua$")
      assert.equal("scripts/" .. name .. ".lua", rock.build.install.lua["rlctl.scripts." .. name])
    end
    listed:close()
  end)

  it("works where it is installed", function()
    local tree = server.folder()
    for module, file in pairs(rock.build.install.lua) do
      local to = tree .. "/" .. string.gsub(module, "%.", "/") .. ".lua"
      local folder = string.match(to, "^(.*)/")
      assert.equal(0, os.execute(string.format("mkdir -p %s && cp ../%s %s", server.quote(folder), file, server.quote(to))))
    end
    local made = os.execute(string.format("cd / && LUA_PATH=%s lua5.1 -e %s", server.quote(tree .. "/?.lua;;"),
      server.quote("require('rlctl').new{ limit = 1, limiter = 'gcra' }")))
    server.remove(tree)
    assert.equal(0, made)
  end)
end)
