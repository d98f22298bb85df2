-- gcra: a bucket of B tokens that refills at L per W µs, kept as one number. It decides as token-bucket does.
--
-- Instead of how full the bucket is, the key holds the time F at which it will be full again. A full bucket has F in
-- the past, or no key at all. Each event moves F on by W / L µs, and a request of cost n passes when the moved F lies
-- no more than B * W / L ahead of now. Refilling is the passing of time: nothing is computed for it.
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

local usual = #KEYS == 1 and #ARGV == 6 and #ARGV[5] <= 256 and string.find(
  ARGV[1] .. ' ' .. ARGV[2] .. ' ' .. ARGV[3] .. ' ' .. ARGV[4] .. ' ' .. ARGV[6], '^%d+ %d+ %d+ %d+ %d+$')
local L, W, B, n, t
if usual then
  L, W, B, n, t = ARGV[1] + 0, ARGV[2] + 0, ARGV[3] + 0, ARGV[4] + 0, ARGV[6] + 0
  usual = L <= 1e9 and W >= 1000 and W <= 31622400000000 and B <= 1e9 and n < 2^53 and t <= 2^52
end
if not usual then
  if #KEYS ~= 1 then return redis.error_reply('INVALID key: one key, please') end
  if #ARGV ~= 6 then return redis.error_reply('INVALID arguments: limit window_us burst cost id now_us') end
  if #ARGV[5] > 256 then return redis.error_reply('INVALID id: at most 256 bytes') end
  local bounds = {
    {'limit', 1, 0, 1e9}, {'window', 2, 1000, 31622400000000}, {'burst', 3, 0, 1e9}, {'cost', 4, 0, 2^53 - 1},
    {'now', 6, 0, 2^52},
  }
  for _, b in ipairs(bounds) do
    local v = string.find(ARGV[b[2]], '^%d+$') and tonumber(ARGV[b[2]])
    if not v or v < b[3] or v > b[4] then
      return redis.error_reply(string.format('INVALID %s: a whole number from %.0f to %.0f', b[1], b[3], b[4]))
    end
  end
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
  redis.call('SET', KEYS[1], state, 'PX', string.format('%.0f', math.ceil(reset / 1000)))
end
return {allowed, B - used, retry, reset, t}
