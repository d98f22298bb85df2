-- A token bucket in a hash, on the caller's clock in seconds, in the manner of Stripe's and of Spring Cloud Gateway's.
--
-- rlctl: keys  {key}
-- rlctl: argv  {rate_per_s} {burst} {now_s} {cost}
-- rlctl: reply allowed remaining
local rate = tonumber(ARGV[1])
local capacity = tonumber(ARGV[2])
local now = tonumber(ARGV[3])
local requested = tonumber(ARGV[4])

local fill_time = capacity / rate
local ttl = math.floor(fill_time * 2)

local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'timestamp')
local last_tokens = tonumber(bucket[1]) or capacity
local last_refreshed = tonumber(bucket[2]) or 0

local delta = math.max(0, now - last_refreshed)
local filled_tokens = math.min(capacity, last_tokens + (delta * rate))
local allowed = filled_tokens >= requested
local new_tokens = filled_tokens
local allowed_num = 0
if allowed then
  new_tokens = filled_tokens - requested
  allowed_num = 1
end

redis.call('HMSET', KEYS[1], 'tokens', new_tokens, 'timestamp', now)
redis.call('EXPIRE', KEYS[1], ttl)

return { allowed_num, new_tokens }
