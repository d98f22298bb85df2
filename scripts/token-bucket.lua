-- token-bucket: a bucket of B tokens that refills at L per W µs; a request of cost n takes n of them, or passes not.
--
-- The key is a hash that a person can read: HGETALL shows `used` and `frac`, the tokens that were missing from a full
-- bucket and the part of one in 1/window, `at`, the time of that, and `window`, the unit of frac. What is missing is
-- kept and not what is there, so that a burst may change and a key that does not exist is a full bucket.
--
-- Since `at` the bucket has refilled (t - at) * L / W tokens. That is seldom whole, and is kept exactly: the state is a
-- pair (tokens, 1/W of a token), and products past 2^53 are divided in parts. A million admissions admit what exact
-- rational arithmetic admits, without drift either way. When the window changes, frac is rounded up to the new unit.
--
-- A clock that steps back makes the refill run backwards, down to an empty bucket. Where it would have passed empty
-- the bucket is set empty now, and this pull is written even by a request that is denied; otherwise a denial writes
-- nothing.
--
-- Gives up: B at once and then L per W, so up to B + L - 1 in some window of W. Costs a little more than gcra, which
-- decides the same and keeps one number that nobody can read.
--
-- KEYS[1]; ARGV: limit window_us burst cost id now_us. Burst 0 is the limit; the id is checked and not used. Cost 0
-- peeks: it writes nothing. now_us 0 takes the server's clock. Replies: allowed, remaining, retry_us (-1: never),
-- reset_us, now_us.
--
-- Rights: +evalsha +script|load +time +hmget +hset +pexpire

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

if B == 0 then B = L end
if L > 0 then
  local q, r = muldiv(B, W, L)
  if q > 2^52 or q == 2^52 and r > 0 then
    return redis.error_reply('INVALID burst: burst * window / limit, the time to refill, is over 2^52 us')
  end
end

if t == 0 then
  local now = call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local used, frac, pull = 0, 0, false
local held = call('HMGET', key, 'used', 'frac', 'at', 'window')
if held[1] then
  used, frac = held[1] + 0, held[2] + 0
  if used >= B then used, frac = B, 0 end
  if frac > 0 and held[4] + 0 ~= W then
    local q, r = muldiv(frac, W, held[4] + 0)
    frac = q
    if r > 0 then frac = frac + 1 end
    if frac == W then used, frac = used + 1, 0 end
  end
  local at = held[3] + 0
  local q, r = muldiv(math.abs(t - at), L, W)
  if t >= at then
    used, frac = used - q, frac - r
    if frac < 0 then used, frac = used - 1, frac + W end
    if used < 0 then used, frac = 0, 0 end
  else
    used, frac = used + q, frac + r
    if frac >= W then used, frac = used + 1, frac - W end
    if used > B or used == B and frac > 0 then used, frac, pull = B, 0, true end
  end
end
local free = B - used
if frac > 0 then free = free - 1 end

local allowed, retry, write = 1, 0, false
if n > B then
  allowed, retry, write = 0, -1, pull
elseif n > free then
  local q, r = muldiv(used + n - B, W, L)
  allowed, retry, write = 0, q + math.ceil((r + frac) / L), pull
elseif n > 0 then
  used, free, write = used + n, free - n, true
end

local q, r = muldiv(used, W, L)
local reset = q + math.ceil((r + frac) / L)
if write then
  call('HSET', key, 'used', format('%d', used), 'frac', format('%d', frac),
    'at', format('%d', t), 'window', ARGV[2])
  local left = reset + t % 1000
  call('PEXPIRE', key, format('%d', (left + -left % 1000) / 1000))
end
return {allowed, free, retry, reset, t}
