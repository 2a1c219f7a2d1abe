-- handoff: prolongs a lease for the last time before another process takes it over, and reads the
-- server's clock. It never creates a key.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the lease's owner
-- ARGV[2]  time to live from now on, in milliseconds
--
-- Returns the server's time as {seconds, microseconds}, both texts; 0 when the key is missing; else
-- {holder, its remaining milliseconds}.
local holder = redis.call('GET', KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] then
  return {holder, redis.call('PTTL', KEYS[1])}
end
redis.call('PEXPIRE', KEYS[1], ARGV[2])
local now = redis.call('TIME')
return {now[1], now[2]}
