-- sliding-counter: about L events in any W µs, from two counters instead of a list of times.
--
-- Windows are aligned to the epoch, as fixed-window's are. The key holds `at cur prev`: cur events in the window that
-- `at`, the time of the last one, lies in, and prev in the one before. The trailing W µs cover the present window up
-- to now, e µs of it, and the last W - e µs of the one before, of which so many are taken to lie in there as if prev
-- had been spread evenly: a request of cost n passes when prev * (W - e) + (cur + n) * W <= L * W. In whole numbers the
-- weight of prev is prev - floor(prev * e / W); the product may pass 2^53 and is then divided in parts.
--
-- A denied request is told when the weight will have fallen far enough, which may be in the window after this one, so
-- that a wait can be up to 2 W.
--
-- A clock that steps back finds `at` in a window that lies ahead. All that was counted, at most L, is moved into the
-- present window, and this pull is written even by a request that is denied.
--
-- Gives up: events are not spread evenly. L of them in the last µs of a window weigh next to nothing before the end of
-- the next, where nearly L more pass: at most 2 L - 1 in some W. In return the edge of a window no longer lets 2 L
-- through at once, and the state is three numbers whatever L is.
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

local floor = math.floor

-- a * b / c as whole quotient and remainder. Below 2^53 - 1 a product and its floored quotient are exact; above, b is
-- taken digit by digit in a base small enough that no step passes 2^53.
local function muldiv(a, b, c)
  local p = a * b
  if p < 9007199254740991 then
    local q = floor(p / c)
    return q, p - q * c
  end
  if not (b < 2^53 and c < 2^46) then error('the key holds a number that no limiter writes') end
  local base, digits = floor(2^52 / c), {}
  local rest = a % c
  local whole, q, r = (a - rest) / c * b, 0, 0
  while b > 0 do
    digits[#digits + 1] = b % base
    b = floor(b / base)
  end
  for i = #digits, 1, -1 do
    p = r * base + rest * digits[i]
    r = p % c
    q = q * base + (p - r) / c
  end
  return whole + q, r
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
local cur, prev, pull = 0, 0, false
local held = call('GET', key)
if held then
  local _, _, at, counted, before = find(held, '^(%d+) (%d+) (%d+)$')
  at = at + 0
  local ahead = at - at % W - (t - e)
  if ahead == 0 then
    cur, prev = counted + 0, before + 0
  elseif ahead == -W then
    prev = counted + 0
  elseif ahead > 0 then
    cur, pull = math.min(counted + before, L), true
  end
end
local weight = 0
if prev > 0 then weight = prev - muldiv(prev, e, W) end

local allowed, retry, write = 1, 0, false
if n > L then
  allowed, retry, write = 0, -1, pull
elseif n > 0 and cur + n + weight > L then
  local q, r
  if cur + n <= L then
    q, r = muldiv(prev + cur + n - L, W, prev)
    retry = q - e
  else
    q, r = muldiv(cur + n - L, W, cur)
    retry = W - e + q
  end
  if r > 0 then retry = retry + 1 end
  allowed, write = 0, pull
elseif n > 0 then
  cur, write = cur + n, true
end

local reset = 0
if cur > 0 then
  reset = 2 * W - e
elseif prev > 0 then
  reset = W - e
end
if write then
  local left = reset + t % 1000
  call('SET', key, format('%d %d %d', t, cur, prev),
    'PX', format('%d', (left + -left % 1000) / 1000))
end
return {allowed, math.max(0, L - cur - weight), retry, reset, t}
