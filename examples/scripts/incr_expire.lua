-- INCR, and EXPIRE when the key is new: the limiter that most people paste. It counts what it denies, too.
--
-- rlctl: keys  {key}
-- rlctl: argv  {window_s}
-- rlctl: reply count
local current = redis.call('INCR', KEYS[1])
if current == 1 then
  redis.call('EXPIRE', KEYS[1], ARGV[1])
end
return current
