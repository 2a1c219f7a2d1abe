-- renew: prolongs a lease at this node; where its key is missing, creates it anew.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the lease's owner
-- ARGV[2]  time to live from now on, in milliseconds
-- ARGV[3]  "1" where admission is off, else another value
--
-- Returns 1 when the key was still the lease's; 2 when it was missing, or only reserved,
-- and has been created (that shows that no other owner holds it); 0 when it was missing
-- or reserved and this server has no record: it may have forgotten another owner's vote,
-- so its key proves nothing; else {holder, its remaining milliseconds}.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  return 1
end
--@line
local kept = reserved(holder)
if holder and not kept then
  return {holder, redis.call('PTTL', KEYS[1])}
end
if ARGV[3] ~= '1' and redis.call('HEXISTS', KEYS[2], 'nodes') == 0 then
  return 0
end
if kept then
  putBack(kept)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
return 2
