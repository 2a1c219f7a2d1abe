-- advance: raises a stripe's counter to a token, for a share that stands here; raise.lua does it
-- for a lease that holds the lock alone.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- KEYS[3]  the lock's readers
-- ARGV     as raise's
--
-- Returns as raise does.
--@lock
--@shares
if redis.call('GETRANGE', KEYS[1], '0', '511') ~= shared or (tonumber(redis.call('ZSCORE', readers, ARGV[1])) or 0) <= now then
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
