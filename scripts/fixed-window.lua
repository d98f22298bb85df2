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

local argv, key, call, find, format = ARGV, KEYS[1], redis.call, string.find, string.format
local L, W, B, n, id, t = argv[1], argv[2], argv[3], argv[4], argv[5], argv[6]
local good = #KEYS == 1 and t and not argv[7] and #id <= 256
  and find(L, '^%d+$') and find(W, '^%d+$') and (B == '0' or find(B, '^%d+$')) and (n == '1' or find(n, '^%d+$'))
  and (t == '0' or find(t, '^%d+$'))
if good then
  L, W, B, n, t = L + 0, W + 0, B + 0, n + 0, t + 0
  good = L <= 1e9 and W >= 1000 and W <= 31622400000000 and B <= 1e9 and n <= 9007199254740991 and t <= 4503599627370496
end
if not good then
  local function out(i, low, high)
    return not find(argv[i], '^%d+$') or argv[i] + 0 < low or argv[i] + 0 > high
  end
  return redis.error_reply('INVALID ' .. (#KEYS ~= 1 and 'key: exactly one'
    or #argv ~= 6 and 'arguments: limit window_us burst cost id now_us' or out(1, 0, 1e9) and 'limit: 0 to 1000000000'
    or out(2, 1000, 31622400000000) and 'window: 1000 to 31622400000000 us' or out(3, 0, 1e9) and 'burst: 0 to 1000000000'
    or out(4, 0, 9007199254740991) and 'cost: 0 to 9007199254740991'
    or out(6, 0, 4503599627370496) and 'now: 0 to 4503599627370496 us' or 'id: at most 256 bytes'))
end

if t == 0 then
  local now = call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local e = t % W
local cur, pull = 0, false
local held = call('GET', key)
if held then
  local _, _, at, counted = find(held, '^(%d+) (%d+)$')
  at = at + 0
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
  local left = reset + t % 1000
  call('SET', key, format('%d %d', t, cur), 'PX', format('%d', (left + -left % 1000) / 1000))
end
return {allowed, cur < L and L - cur or 0, retry, reset, t}
