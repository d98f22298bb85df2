-- compact-log: at most L events in any W µs, exactly, from a bare list of times.
--
-- The key is a list with the time of each event, the newest at its head. A request of cost n passes unless the entry at
-- index L - n is less than W old: one LINDEX decides, and is all that a denial reads beside the head. Redis packs the
-- list at some 10 bytes an entry, a third and less of what sliding-log's sorted set takes.
--
-- How many entries still count is found from the tail: the expired ones are the oldest, usually none or few, and
-- galloping finds where they end in a handful of reads. An admission adds its entries first, since Redis checks its
-- memory at the first write of a script, and then takes at most 1,000 expired ones away; the calls after it take the
-- rest. A denial removes nothing, and writes nothing.
--
-- A clock that steps back finds the head ahead of it. The log's own clock then goes on from the head, which carries the
-- offset between the two as `time:offset`. Spacing stays as it was, and nobody waits longer than one window. This pull
-- is written even by a request that is denied.
--
-- Gives up: ids. It cannot tell that a request was sent before, so that one sent twice is counted twice; for distinct
-- requests it decides exactly as sliding-log does. Deep in a list of very many entries LINDEX walks O(L / 800) nodes.
--
-- KEYS[1]; ARGV: limit window_us burst cost id now_us. Burst and id are checked and not used. Cost 0 peeks: it writes
-- nothing. now_us 0 takes the server's clock. Replies: allowed, remaining, retry_us (-1: never), reset_us, now_us.
--
-- Rights: +evalsha +script|load +time +lindex +llen +lpush +lset +ltrim +pexpire

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

if n > 1000 and n <= L then return redis.error_reply('INVALID cost: at most 1000 where it fits the limit') end

if t == 0 then
  local now = call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local head = call('LINDEX', key, '0')
local newest, offset, marked = -1, 0, false
if head then
  newest = tonumber(head)
  if not newest then -- it carries the offset
    local at, skew = string.match(head, '^(%d+):(%d+)$')
    newest, offset, marked = at + 0, skew + 0, true
  end
end
local time, pull = t + offset, false
if newest > time then time, offset, pull = newest, newest - t, true end
local expired = time - W

local allowed, retry, write, deciding = 1, 0, false, -2^53 -- as no entry: older than any can be
if n > L then
  allowed, retry, write = 0, -1, pull
elseif n == L and head then
  deciding = newest
elseif n > 0 and n < L then
  deciding = (call('LINDEX', key, format('%d', L - n)) or deciding) + 0
end
if deciding > expired then
  allowed, retry, write = 0, deciding + W - time, pull
  if n == 1 and not pull then return {0, 0, retry, newest + W - time, t} end -- all L count, and nothing is written
end

-- How many of the oldest entries have expired, of a list whose head has not.
local function dead(length)
  local low, step = 0, 1
  while low + step < length and call('LINDEX', key, format('%d', -low - step)) + 0 <= expired do
    low, step = low + step, 2 * step
  end
  local high = math.min(low + step, length)
  while low + 1 < high do
    local mid = math.floor((low + high) / 2)
    if call('LINDEX', key, format('%d', -mid)) + 0 <= expired then low = mid else high = mid end
  end
  return low
end

local count = 0
if allowed == 1 and n > 0 then
  local stamp, entries = format('%d', time), {}
  for i = 1, n do entries[i] = stamp end
  if offset > 0 then entries[n] = format('%d:%d', time, offset) end
  local length = call('LPUSH', key, unpack(entries))
  if marked then call('LSET', key, format('%d', n), format('%d', newest)) end
  local gone = dead(length)
  if gone > 0 then call('LTRIM', key, '0', format('%d', -1 - math.min(gone, 1000))) end
  count, newest, write = length - gone, time, true
else
  if write then call('LSET', key, '0', format('%d:%d', time, offset)) end
  if newest > expired and allowed == 0 and n == 1 then
    count = L
  elseif head and newest > expired then
    local length = call('LLEN', key)
    count = length - dead(length)
  end
end

local reset = 0
if count > 0 then reset = newest + W - time end
if write then
  local left = reset + t % 1000
  call('PEXPIRE', key, format('%d', (left + -left % 1000) / 1000))
end
return {allowed, math.max(0, L - count), retry, reset, t}
