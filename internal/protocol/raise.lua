-- raise: raises a stripe's counter to a token, for a lease whose key is here.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the lease's owner
-- ARGV[2]  the counter of the lock's stripe
-- ARGV[3]  the token
-- ARGV[4]  the least count that shows the record to be whole
--
-- Returns 1 when the counter is at the token or above, 0 when the lease or the record is
-- gone: then nothing is changed.
if redis.call('GETRANGE', KEYS[1], '0', '511') ~= ARGV[1] then
  return 0
end
local count = tonumber(redis.call('HGET', KEYS[2], ARGV[2]))
if not count or count < tonumber(ARGV[4]) then
  return 0 -- what was counted where a record is missing must not become one
end
if count < tonumber(ARGV[3]) then
  redis.call('HSET', KEYS[2], ARGV[2], ARGV[3])
end
return 1
