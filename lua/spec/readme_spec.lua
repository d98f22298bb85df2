-- What README.md shows runs as it stands, but for where Redis is.

local rlctl = require("rlctl")
local server = require("spec.server")

describe("the examples in README.md", function()
  it("run", function()
    local file = assert(io.open("README.md"))
    local page = file:read("*a")
    file:close()
    local redis, printed = server.start(), {}
    local here = setmetatable({ new = function(settings)
      settings.host = nil
      return redis:limiter(settings)
    end }, { __index = rlctl })
    local environment = setmetatable({
      require = function() return here end,
      print = function(...) printed[#printed + 1] = ... end,
    }, { __index = _G })
    local blocks = 0
    for block in string.gmatch(page, "```lua\n(.-)```") do
      blocks = blocks + 1
      setfenv(assert(loadstring(block)), environment)()
    end
    redis:close()
    assert.equal(2, blocks)
    assert.same({ "go on; 99 left" }, printed)
  end)
end)
