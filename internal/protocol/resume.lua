-- resume: gives the key of a lease that was transferred to its new owner.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the transfer value, which the transfer gave the key
-- ARGV[2]  the new owner
-- ARGV[3]  time to live from now on, in milliseconds
-- ARGV[4]  the counter of the lock's stripe
-- ARGV[5]  the least count that shows the record to be whole
--
-- Returns the count; -1 when the record is not whole: then the key and
-- the record are deleted; 0 when the key is missing; else {holder, its remaining milliseconds}.
--@value
local holder = valueOf(KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] and holder ~= ARGV[2] then
  return {holder, redis.call('PTTL', KEYS[1])}
end
redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- as in transfer.lua
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
local count = redis.call('HINCRBY', KEYS[2], ARGV[4], 1)
if count < tonumber(ARGV[5]) then
  redis.call('DEL', KEYS[1], KEYS[2])
  return -1
end
return count
