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
  local now = redis.call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local used, frac, pull = 0, 0, false
local held = redis.call('HMGET', KEYS[1], 'used', 'frac', 'at', 'window')
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
  redis.call('HSET', KEYS[1], 'used', string.format('%.0f', used), 'frac', string.format('%.0f', frac),
    'at', string.format('%.0f', t), 'window', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], string.format('%.0f', math.ceil((reset + t % 1000) / 1000)))
end
return {allowed, free, retry, reset, t}
