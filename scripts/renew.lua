-- renew: prolongs a lease at this node; where its key is missing, creates it anew.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the lease's owner
-- ARGV[2]  time to live from now on, in milliseconds
--
-- Returns 1 when the key was still the lease's, 2 when it was missing and has
-- been created (that it was missing shows that nobody else stands there), else
-- {holder, its remaining milliseconds}.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
if not holder then
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  return 2
end
return {holder, redis.call('PTTL', KEYS[1])}
