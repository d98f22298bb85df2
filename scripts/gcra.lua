-- gcra: a bucket of B tokens that refills at L per W µs, kept as one number.
--
-- Instead of how full the bucket is, the key holds the time F at which it will be full again. A full bucket has F in
-- the past, or no key at all. Each event moves F on by W / L µs, and a request of cost n passes when the moved F lies
-- no more than B * W / L ahead of now. Refilling is the passing of time: nothing is computed for it. While limit, window
-- and burst stay the same it decides as token-bucket does.
--
-- W / L is not always whole: 7 per minute is an event each 8,571,428 4/7 µs. The rest is kept, exactly, as `F g L`: full
-- at F + g/L µs, g < L. While there is no rest the key is `F` alone. Arithmetic is then on pairs (whole µs, 1/L µs), and
-- products past 2^53 are divided in parts. Where W / L is whole the same is done with plain numbers, which costs half.
-- F - t is computed before anything else, since larger sums would pass 2^53 and lose a µs.
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

if B == 0 then B = L end
local each = W / L -- µs from one event to the next
local whole = W % L == 0
local tooLong = 'INVALID burst: burst * window / limit, the time to refill, is over 2^52 us'
if whole and B * each > 2^52 then return redis.error_reply(tooLong) end

if t == 0 then
  local now = call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local held, f = call('GET', key), 0
if held then f = tonumber(held) end -- nil where there is a rest
local allowed, retry, write, cap = 1, 0, false, false

-- The bucket is full again f µs from now: all that is needed where every event takes whole µs.
if whole and f then
  local full = B * each
  f = f - t
  if not (f > 0) then f = 0 elseif f > full then f, cap = full, true end
  local moved = f + n * each
  if moved > full then
    allowed, retry, write = 0, moved - full, cap
    if n > B then retry = -1 end
  elseif n > 0 then
    f, write = moved, true
  end
  if write then
    local left = f + t % 1000
    call('SET', key, format('%d', t + f), 'PX', format('%d', (left + -left % 1000) / 1000))
  end
  return {allowed, B - (f + -f % each) / each, retry, f, t}
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

local fullT, fullG = muldiv(B, W, L)
if fullT > 2^52 or fullT == 2^52 and fullG > 0 then return redis.error_reply(tooLong) end

-- The bucket is full again f + g/L µs from now.
local g = 0
f = 0
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
  local state = g > 0 and format('%d %d %d', t + f, g, L) or format('%d', t + f)
  local left = reset + t % 1000
  call('SET', key, state, 'PX', format('%d', (left + -left % 1000) / 1000))
end
return {allowed, B - used, retry, reset, t}
