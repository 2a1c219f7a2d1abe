-- renew: prolongs a lease at this node; where its key is missing, creates it anew.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- KEYS[3]  the server's list of masters
-- KEYS[4]  the lock's wait queue; only with ARGV[4], as KEYS[5]
-- KEYS[5]  says who was asked to let the lock go
-- ARGV[1]  the lease's owner
-- ARGV[2]  time to live from now on, in milliseconds
-- ARGV[3]  the list of masters by which the lease was granted; '' where admission is off
-- ARGV[4]  missing unless the holder wants to be told that others want the lock: the ticket of the
--          waiter that got the lease, which leaves the queue, or '' if it did not queue
--
-- Returns 1 when the key was still the lease's; 2 when it was missing, or only reserved,
-- and has been created (that shows that no other owner holds it); 11 and 12 for the same where
-- others want the lock, with ARGV[4]; 0 when it was missing
-- or reserved and this server has no record: it may have forgotten another owner's vote,
-- so its key proves nothing; when this server stands in another list of masters, or in none, 6 when the key was
-- the lease's, and was prolonged, and 5 when it was missing or reserved: both prove nothing; else {holder, its remaining milliseconds}.
--@value
local holder = valueOf(KEYS[1])
local stranger = ARGV[3] ~= '' and redis.call('HGET', KEYS[3], 'id') ~= ARGV[3]
if holder == ARGV[1] then
  redis.call('PEXPIRE', KEYS[1], ARGV[2])
  if stranger then
    return 6
  elseif not ARGV[4] then
    return 1
  end
end
--@lock
--@queue
--@asked
if holder ~= ARGV[1] then
  local kept = reserved(holder)
  if holder and not kept then
    return {holder, redis.call('PTTL', KEYS[1])}
  end
  if ARGV[3] ~= '' and redis.call('HEXISTS', KEYS[2], 'nodes') == 0 then
    return 0
  elseif stranger then
    return 5
  end
  if kept then
    putBack(kept)
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
local reply = holder == ARGV[1] and 1 or 2
return ARGV[4] and isAwaited(ARGV[1], ARGV[4], KEYS[5]) and reply + 10 or reply
