-- What the pages show runs as it stands, but for where Redis is.

local rlctl = require("rlctl")
local server = require("spec.server")

local function read(path)
  local file = assert(io.open(path))
  local page = file:read("*a")
  file:close()
  return page
end

describe("the examples", function()
  local redis

  setup(function() redis = server.start() end)
  teardown(function() redis:close() end)

  -- Runs each Lua block of a page, and returns how many there are and what they print.
  local function run(page)
    local printed, blocks = {}, 0
    local module = setmetatable({ new = function(settings)
      settings.host = nil
      return redis:limiter(settings)
    end }, { __index = rlctl })
    local environment = setmetatable({
      require = function() return module end,
      print = function(...) printed[#printed + 1] = ... end,
    }, { __index = _G })
    for block in string.gmatch(page, "```lua\n(.-)```") do
      blocks = blocks + 1
      setfenv(assert(loadstring(block)), environment)()
    end
    return { blocks, unpack(printed) }
  end

  it("in README.md run", function()
    assert.same({ 2, "go on; 99 left" }, run(read("README.md")))
  end)

  it("in the project's README.md run", function()
    assert.same({ 1 }, run(read("../README.md")))
  end)
end)
