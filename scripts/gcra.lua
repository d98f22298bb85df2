-- gcra: a bucket of B tokens that refills at L per W µs, kept as one number.
--
-- Instead of how full the bucket is, the key holds the time F at which it will be full again. A full bucket has F in
-- the past, or no key at all. Each event moves F on by W / L µs, and a request of cost n passes when the moved F lies
-- no more than B * W / L ahead of now. Refilling is the passing of time: nothing is computed for it. While limit, window
-- and burst stay the same it decides as token-bucket does.
--
-- W / L is seldom whole: 7 per minute is an event each 8,571,428 4/7 µs. The rest is kept, exactly, as `F g L`: full
-- at F + g/L µs, g < L. While there is no rest the key is `F` alone. All arithmetic is on pairs (whole µs, 1/L µs),
-- products past 2^53 are divided in parts, and F - t is computed before anything else, since larger sums would pass
-- 2^53 and lose a µs.
--
-- A clock that steps back finds F too far ahead. F is capped at one whole refill from now, so nobody waits longer
-- than that, and the cap is written even by a request that is denied. The same cap serves a burst, window or limit
-- that was made smaller.
--
-- Gives up: a bucket lets B at once and then L per W, so up to B + L - 1 in some window of W. A changed limit keeps
-- the time until full, not the tokens used. A person cannot read the key; that is what token-bucket is for.
--
-- KEYS[1]; ARGV: limit window_us burst cost id now_us. Burst 0 is the limit; the id is checked and not used. Cost 0
-- peeks: it writes nothing. now_us 0 takes the server's clock. Replies: allowed, remaining, retry_us (-1: never),
-- reset_us, now_us.
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
local fullT, fullG
if L > 0 then
  fullT, fullG = muldiv(B, W, L)
  if fullT > 2^52 or fullT == 2^52 and fullG > 0 then
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

-- The bucket is full again f + g/L µs from now.
local f, g, cap = 0, 0, false
local held = redis.call('GET', KEYS[1])
if held then
  local F, rest, oldL = string.match(held, '^(%d+) ?(%d*) ?(%d*)$')
  f = F - t
  if rest ~= '' then
    g = rest + 0
    if oldL + 0 ~= L then
      local q, r = muldiv(g, L, oldL + 0)
      g = q
      if r > 0 then g = g + 1 end
      if g == L then f, g = f + 1, 0 end
    end
  end
  if f < 0 then
    f, g = 0, 0
  elseif f > fullT or f == fullT and g > fullG then
    f, g, cap = fullT, fullG, true
  end
end

local allowed, retry, write = 1, 0, false
if n > B then
  allowed, retry, write = 0, -1, cap
elseif n > 0 then
  local q, r = muldiv(n, W, L)
  q, r = f + q, g + r
  if r >= L then q, r = q + 1, r - L end
  if q < fullT or q == fullT and r <= fullG then
    f, g, write = q, r, true
  else
    allowed, retry, write = 0, q - fullT, cap
    if r > fullG then retry = retry + 1 end
  end
end

local used, part = muldiv(f, L, W)
part = part + g
used = used + floor(part / W)
if part % W > 0 then used = used + 1 end
local reset = f
if g > 0 then reset = f + 1 end
if write then
  local state
  if g == 0 then
    state = string.format('%.0f', t + f)
  else
    state = string.format('%.0f %.0f %.0f', t + f, g, L)
  end
  redis.call('SET', KEYS[1], state, 'PX', string.format('%.0f', math.ceil((reset + t % 1000) / 1000)))
end
return {allowed, B - used, retry, reset, t}
