-- sliding-log: at most L events in any W µs, exactly, and a request that is sent twice is counted once.
--
-- The key is a sorted set with one entry an event: the score is its time, the member `i:ID`, i from 1 to the cost. A
-- request of cost n at t passes when the entries in (t - W, t] and n are at most L. An entry that is W old no longer
-- counts. The member holds the caller's id and not the time, so that two events in one µs are two, and so that an id
-- seen inside the window, whose answer was perhaps lost, is answered again and not charged again.
--
-- An admission adds its entries first, since Redis checks its memory at the first write of a script, and then takes at
-- most 1,000 expired ones away: a call that removed a million would stop the server for a third of a second. What is
-- left is taken by the calls after it, and is not counted meanwhile. A denial removes nothing, and writes nothing.
--
-- A clock that steps back finds its newest entry ahead. The log's own clock then goes on from that entry: the offset
-- between the two clocks is kept as one more member, `offset:N` with score inf, which sorts last. Spacing and ids stay
-- as they were, and nobody waits longer than one window. This pull is written even by a request that is denied.
--
-- Gives up: memory. An entry is its member and 12 bytes up to 128 entries, and some 100 beyond; and time, though little
-- of it: counting is O(log L). It is the dearest of all, and the only one exact over any window and safe to retry.
--
-- KEYS[1]; ARGV: limit window_us burst cost id now_us. Burst is checked and not used. Cost 0 peeks: it writes nothing.
-- now_us 0 takes the server's clock. Replies: allowed, remaining, retry_us (-1: never), reset_us, now_us.
--
-- Rights: +evalsha +script|load +time +zrange +zcount +zscore +zadd +zrem +zcard +zremrangebyrank +pexpire

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

if n > 0 and id == '' then return redis.error_reply('INVALID id: an empty one cannot be told from another') end
if n > 1000 and n <= L then return redis.error_reply('INVALID cost: at most 1000 where it fits the limit') end

if t == 0 then
  local now = call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local top = call('ZRANGE', key, '-2', '-1', 'WITHSCORES')
local size, offset, marks = #top, 0, 0
if size > 0 and top[size] == 'inf' then
  offset, marks, size = string.match(top[size - 1], '%d+') + 0, 1, size - 2
end
local time, newest, pull = t + offset, 0, false
if size > 0 then
  newest = top[size] + 0
  if newest > time then time, offset, pull = newest, newest - t, true end
end

-- Times are 0 or more, so -1 is before all of them.
local expired = math.max(time - W, -1)
local stamp = format('%d', time)
local count, seen = 0, false
if size > 0 and newest > expired then
  count = call('ZCOUNT', key, format('(%d', expired), stamp)
  if n > 0 then
    local score = call('ZSCORE', key, '1:' .. id)
    seen = score and score + 0 > expired
  end
end

local allowed, retry, write = 1, 0, false
if n == 0 then
  write = false
elseif seen then
  write = pull
elseif n > L then
  allowed, retry, write = 0, -1, pull
elseif count + n > L then
  local rank = format('%d', n - L - 1 - marks)
  local first = call('ZRANGE', key, rank, rank, 'WITHSCORES')
  allowed, retry, write = 0, first[2] + W - time, pull
else
  local entries = {}
  for i = 1, n do
    entries[2 * i - 1] = stamp
    entries[2 * i] = format('%d:', i) .. id
  end
  call('ZADD', key, unpack(entries))
  count, newest, write = count + n, time, true
end

local reset = 0
if count > 0 then reset = newest + W - time end
if write then
  if pull then
    call('ZADD', key, 'inf', format('offset:%d', offset))
    if marks > 0 then call('ZREM', key, top[#top - 1]) end
    marks = 1
  end
  if allowed == 1 and not seen then
    local dead = call('ZCARD', key) - count - marks
    if dead > 0 then call('ZREMRANGEBYRANK', key, '0', format('%d', math.min(dead, 1000) - 1)) end
  end
  local left = reset + t % 1000
  call('PEXPIRE', key, format('%d', (left + -left % 1000) / 1000))
end
return {allowed, math.max(0, L - count), retry, reset, t}
