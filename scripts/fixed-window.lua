-- fixed-window: at most L events in each window of W µs, the windows aligned to the epoch.
--
-- Time is cut into windows floor(t / W). The key holds `at cur`: cur events were let through in the window that `at`,
-- the time of the last one, lies in. A request of cost n passes when cur + n <= L. A window that has ended counts
-- nothing, so that the end of a window needs no timer: the next request sees that `at` lies in an earlier one.
--
-- The window is read from `at` and not from the key's own expiry, which fires up to 1 ms after the edge. The expiry
-- only takes the key away: PX is the rest of the window, rounded up.
--
-- A clock that steps back finds `at` in a window that lies ahead. What it counted, at most L, is moved into the
-- present window, and this pull is written even by a request that is denied, or the next one would do it again.
--
-- Gives up: the bound holds for aligned windows only. L events just before an edge and L just after it are 2 L within
-- any time at all. It is the cheapest of all: two numbers, two commands.
--
-- KEYS[1]; ARGV: limit window_us burst cost id now_us. Burst and id are checked and not used. Cost 0 peeks: it writes
-- nothing. now_us 0 takes the server's clock. Replies: allowed, remaining, retry_us (-1: never), reset_us, now_us.
--
-- Rights: +evalsha +script|load +time +get +set

local function whole(i, low, high)
  local text = ARGV[i]
  if not text or not string.find(text, '^%d+$') then return false end
  local value = text + 0
  return value >= low and value <= high and value
end
local L, W, B = whole(1, 0, 1e9), whole(2, 1000, 31622400000000), whole(3, 0, 1e9)
local n, id, t = whole(4, 0, 9007199254740991), ARGV[5], whole(6, 0, 4503599627370496)
local bad = #KEYS ~= 1 and 'key: exactly one' or #ARGV ~= 6 and 'arguments: limit window_us burst cost id now_us'
  or not L and 'limit: 0 to 1000000000' or not W and 'window: 1000 to 31622400000000 us'
  or not B and 'burst: 0 to 1000000000' or not n and 'cost: 0 to 9007199254740991'
  or not t and 'now: 0 to 4503599627370496 us' or #id > 256 and 'id: at most 256 bytes'
if bad then return redis.error_reply('INVALID ' .. bad) end

if t == 0 then
  local now = redis.call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local e = t % W
local cur, pull = 0, false
local held = redis.call('GET', KEYS[1])
if held then
  local at, counted = string.match(held, '^(%d+) (%d+)$')
  local ahead = at - at % W - (t - e)
  if ahead == 0 then
    cur = counted + 0
  elseif ahead > 0 then
    cur, pull = math.min(counted + 0, L), true
  end
end

local allowed, retry, write = 1, 0, false
if n > L then
  allowed, retry, write = 0, -1, pull
elseif n > 0 and cur + n > L then
  allowed, retry, write = 0, W - e, pull
elseif n > 0 then
  cur, write = cur + n, true
end

local reset = 0
if cur > 0 then reset = W - e end
if write then
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', t, cur), 'PX', string.format('%.0f', math.ceil((reset + t % 1000) / 1000)))
end
return {allowed, math.max(0, L - cur), retry, reset, t}
