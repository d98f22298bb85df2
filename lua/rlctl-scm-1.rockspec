-- From the root of a checkout: luarocks make lua/rlctl-scm-1.rockspec
-- The scripts are installed from the folder that the Go library embeds; the module finds them beside itself.
rockspec_format = "1.0"
package = "rlctl"
version = "scm-1"
source = { url = "git+https://github.com/rlctl/rlctl.git" }
description = {
  summary = "Redis rate limiters, each one atomic script",
  detailed = "Sliding log, sliding counter, fixed window, token bucket and GCRA on redis-lua, over the scripts of rlctl.",
  homepage = "https://github.com/rlctl/rlctl",
  license = "MIT",
}
dependencies = { "lua >= 5.1", "redis-lua >= 2.0.4", "luasocket >= 3.0" }
build = {
  type = "none", -- the builtin one would copy all of lua/, specs included
  install = {
    lua = {
      ["rlctl"] = "lua/rlctl.lua",
      ["rlctl.connection"] = "lua/rlctl/connection.lua",
      ["rlctl.scripts.compact-log"] = "scripts/compact-log.lua",
      ["rlctl.scripts.fixed-window"] = "scripts/fixed-window.lua",
      ["rlctl.scripts.gcra"] = "scripts/gcra.lua",
      ["rlctl.scripts.sliding-counter"] = "scripts/sliding-counter.lua",
      ["rlctl.scripts.sliding-log"] = "scripts/sliding-log.lua",
      ["rlctl.scripts.token-bucket"] = "scripts/token-bucket.lua",
    },
  },
}
