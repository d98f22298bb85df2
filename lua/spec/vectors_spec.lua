-- The decision vectors, which Go asks too: see testdata/vectors/README.md.

local json = require("dkjson")
local server = require("spec.server")

local names = require("spec.limiters")

local function read(name)
  local file = assert(io.open("../testdata/vectors/" .. name .. ".json"))
  local vectors = assert(json.decode(file:read("*a"))).vectors
  file:close()
  return vectors
end

describe("the decision vectors:", function()
  local redis

  setup(function() redis = server.start() end)
  teardown(function() redis:close() end)

  -- Each limit wants a limiter.
  local function opener(name)
    local open = {}
    return function(step)
      local which = step.limit .. "/" .. step.window_us .. "/" .. step.burst
      open[which] = open[which] or redis:limiter{
        limiter = name, limit = step.limit, window = step.window_us / 1e6, burst = step.burst,
      }
      return open[which]
    end
  end

  for _, name in ipairs(names) do
    local limiter_of
    for _, vector in ipairs(read(name)) do
      it(name .. ", " .. vector.name, function()
        limiter_of = limiter_of or opener(name)
        for i, step in ipairs(vector.steps) do
          redis:set(step.at_us)
          local allowed, remaining, retry_after, d = limiter_of(step):check("vector " .. vector.name, step.cost, step.id)
          local got = { d.allowed and 1 or 0, d.remaining, d.retry_after_us, d.reset_after_us, d.server_time_us }
          assert.same(step.want, got, "step " .. i)
          assert.same({ d.allowed, d.remaining, d.retry_after }, { allowed, remaining, retry_after })
        end
      end)
    end
  end
end)
