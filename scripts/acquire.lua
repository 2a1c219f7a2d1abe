-- acquire: grants the lock at this node if nobody holds it, and counts the grant.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the attempt's owner, a value that no other attempt has
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counter of the lock's stripe
-- ARGV[4]  the least count that shows the record to be whole
--
-- Returns the count when granted; -1 when the counter was missing: this server
-- has lost its memory and must not vote; else {holder, its remaining
-- milliseconds}.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  local count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
  if count >= tonumber(ARGV[4]) then
    return count
  end
  redis.call('DEL', KEYS[1], KEYS[2])
  return -1
end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
