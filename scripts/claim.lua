-- claim: grants the lock at this node if nobody holds it, without a fencing token.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the attempt's owner, a value that no other attempt has
-- ARGV[2]  time to live, in milliseconds
--
-- Returns 1 when granted, else {holder, its remaining milliseconds}.
if redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2]) then
  return 1
end
return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1])}
