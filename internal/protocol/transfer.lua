-- transfer: prolongs a lease for the last time before another process takes it over, and gives its key a
-- value that neither the owner's renewals nor its release match. It never creates a key.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the server's list of masters
-- ARGV[1]  the lease's owner
-- ARGV[2]  the transfer value: the key's, from now on; it may have it from an earlier transfer of the lease
-- ARGV[3]  time to live from now on, in milliseconds
-- ARGV[4]  the list of masters; '' where admission is off
--
-- Returns 1; 0 when the key is missing; 6 when this server stands in another list of masters, or in none: then nothing is
-- changed; else {holder, its remaining milliseconds}.
--@value
local holder = valueOf(KEYS[1])
if not holder then
  return 0
end
if holder ~= ARGV[1] and holder ~= ARGV[2] then
  return {holder, redis.call('PTTL', KEYS[1])}
end
if ARGV[4] ~= '' and redis.call('HGET', KEYS[2], 'id') ~= ARGV[4] then
  return 6
end
redis.call('PEXPIRE', KEYS[1], ARGV[3]) -- a full server executes it, and then what follows
redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
return 1
