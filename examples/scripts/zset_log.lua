-- A log of times in a sorted set, on the caller's clock, as it is often pasted: the member is the time itself, so two
-- requests in one millisecond are one member.
--
-- rlctl: keys  {key}
-- rlctl: argv  {now_ms} {window_ms} {limit}
-- rlctl: reply allowed
local key = KEYS[1]
local now = tonumber(ARGV[1])
local window = tonumber(ARGV[2])
local limit = tonumber(ARGV[3])

redis.call('ZREMRANGEBYSCORE', key, 0, now - window)
local count = redis.call('ZCARD', key)
if count < limit then
  redis.call('ZADD', key, now, now)
  redis.call('PEXPIRE', key, window)
  return 1
end
return 0
