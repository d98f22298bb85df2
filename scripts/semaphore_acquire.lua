-- semaphore_acquire: at most L holders at once, each for a lease of W µs that it may renew.
--
-- The other rules ask how many per time, this one how many now. The key is a sorted set with one entry a holder: the
-- member is `1:ID`, the score when its lease ends. A request is let in while fewer than L leases run, or if its id
-- holds already, whose answer was perhaps lost; either way its lease then ends W from now. A lease that ends at t is
-- over at t: the slot of a holder that died comes back by itself. semaphore_renew and semaphore_release work on the
-- same key. A denied request is told when enough leases will have ended; a release may come before.
--
-- Each holder's lease is its own, and requests may ask for different W. So a clock that steps back must not cut leases
-- to what the caller of the moment asks for. Two more members remember time, with scores below 0, which sort first:
-- `at`, minus the time of the newest lease given, and after a step back `offset`, minus the difference between the
-- semaphore's own clock and the server's. Its clock never runs behind `at`: it goes on from there, all leases keep
-- their length and nobody waits longer than one of them. This pull is written even by a request that is denied.
--
-- An admission adds first, since Redis checks its memory at the first write of a script, and then takes at most 1,000
-- ended leases away, which bounds the work of a call. The others are not counted meanwhile.
--
-- Gives up: fairness. Who asks at the right moment gets the slot, however long others have waited. And a lease is no
-- lock on what the holder does: one that goes on after its lease has ended is one too many.
--
-- KEYS[1]; ARGV: limit window_us burst cost id now_us. The window is the lease. Burst is checked and not used. Cost 1
-- acquires, cost 0 peeks: it writes nothing. now_us 0 takes the server's clock. Replies: allowed, remaining, retry_us
-- (-1: never), reset_us (until the last lease ends), now_us.
--
-- Rights: +evalsha +script|load +time +zrange +zcount +zscore +zadd +zcard +zremrangebyrank +pexpire

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

if n > 1 then return redis.error_reply('INVALID cost: at most 1 of a semaphore') end
if n > 0 and id == '' then return redis.error_reply('INVALID id: an empty one cannot be told from another') end

if t == 0 then
  local now = call('TIME')
  t = now[1] * 1000000 + now[2]
end
if L == 0 then
  if n == 0 then return {1, 0, 0, 0, t} end
  return {0, 0, -1, 0, t}
end

local member = '1:' .. id
local offset, at = 0, 0
local marks = call('ZRANGE', key, '0', '1', 'WITHSCORES')
for i = 1, #marks, 2 do
  if marks[i] == 'at' then at = -marks[i + 1] elseif marks[i] == 'offset' then offset = -marks[i + 1] end
end
local time, pull = t + offset, false
if at > time then time, offset, pull = at, at - t, true end

local live = format('(%d', time)
local count, holds = call('ZCOUNT', key, live, '+inf'), false
if n > 0 and count > 0 then
  local ends = call('ZSCORE', key, member)
  holds = ends and ends + 0 > time
end

local allowed, retry, write = 1, 0, pull and n > 0
if n > 0 and not holds and count >= L then
  local rank = format('%d', -L)
  allowed, retry = 0, call('ZRANGE', key, rank, rank, 'WITHSCORES')[2] - time
  if pull then call('ZADD', key, format('%d', -offset), 'offset') end
elseif n > 0 then
  local entries = {format('%d', time + W), member, format('%d', -time), 'at'}
  if pull then entries[5], entries[6] = format('%d', -offset), 'offset' end
  call('ZADD', key, unpack(entries))
  if not holds then count = count + 1 end
  local kept = offset > 0 and 2 or 1
  local dead = call('ZCARD', key) - count - kept
  if dead > 0 then
    call('ZREMRANGEBYRANK', key, kept, format('%d', kept + math.min(dead, 1000) - 1))
  end
  write = true
end

local reset = 0
if count > 0 then reset = call('ZRANGE', key, '-1', '-1', 'WITHSCORES')[2] - time end
if write then
  local left = reset + t % 1000
  call('PEXPIRE', key, format('%d', (left + -left % 1000) / 1000))
end
return {allowed, math.max(0, L - count), retry, reset, t}
