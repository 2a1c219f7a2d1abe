-- keep: prolongs a share at this node; where it is missing, and no writer has the lock, it
-- gives the share anew. Of a lease that holds the lock alone it makes a share: so a
-- downgrade is its first renewal by this script.
--
-- KEYS     as read's
-- KEYS[5]  the server's list of masters
-- KEYS[6]  says who was asked to let the lock go; only with ARGV[5]
-- ARGV[1]  the lease's owner
-- ARGV[2]  time to live from now on, in milliseconds; '0' to keep the end of the lease's key or share, and then
--          nothing is given anew
-- ARGV[3]  the list of masters by which the lease was granted; '' where admission is off
-- ARGV[4]  the ticket of the waiter that got the lease, which leaves the queue; '' if it did
--          not queue
-- ARGV[5]  missing unless the holder wants to be told that others want the lock; else '1'
--
-- Returns as renew does: 1 when the share, or the key, was still the lease's; 2 when it was
-- missing, and has been given anew; 11 and 12 for the same where a writer waits, or somebody has
-- asked the readers to let go, with ARGV[5]; 0 when it was missing and this server has no
-- record, or must not give it anew; 5 and 6 as renew, when this server stands in another list of masters, or in none; else
-- {holder, its remaining milliseconds}.
--@value
local holder = valueOf(KEYS[1])
local stranger = ARGV[3] ~= '' and redis.call('HGET', KEYS[5], 'id') ~= ARGV[3]
-- Most renewals of an only reader end here: readers hold the lock, the set has one share, which is this
-- owner's and not over, and there is no queue. The rest of the script would give that share the same end,
-- and let nobody in. The first command is one that a full server executes.
if holder == 'redlock::shared' and ARGV[2] ~= '0' and not ARGV[5] and redis.call('ZCARD', KEYS[4]) == 1
  and redis.call('EXISTS', KEYS[3]) == 0 then
  local clock = redis.call('TIME')
  local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
  if (tonumber(redis.call('ZSCORE', KEYS[4], ARGV[1])) or 0) > now then
    local ends = now + ARGV[2]
    redis.call('PEXPIREAT', KEYS[4], ends)
    redis.call('ZADD', KEYS[4], ends, ARGV[1])
    redis.call('SET', KEYS[1], holder, 'PXAT', ends)
    return stranger and 6 or 1
  end
end
--@lock
--@shares
local stood = holder == ARGV[1]
if holder == shared then
  stood = (tonumber(redis.call('ZSCORE', readers, ARGV[1])) or 0) > now
end
if ARGV[2] == '0' then
  if holder ~= ARGV[1] then
    return stood and (stranger and 6 or 1) or holder and {holder, redis.call('PTTL', KEYS[1])} or 0
  end
  ARGV[2] = redis.call('PTTL', KEYS[1])
end
if stood and holder == shared and not ARGV[5] and redis.call('EXISTS', KEYS[3]) == 0 then
  share(ARGV[1], ARGV[2], holder)
  return stranger and 6 or 1
end
--@queue
--@reserve
--@readers
if ARGV[4] ~= '' then
  redis.call('ZREM', queue, ARGV[4])
end
local kept = reserved(holder)
if not stood then
  if holder and holder ~= shared and not kept then
    return {holder, redis.call('PTTL', KEYS[1])}
  end
  if ARGV[3] ~= '' and redis.call('HEXISTS', KEYS[2], 'nodes') == 0 then
    return 0
  elseif stranger then
    return 5
  end
  if kept and kept ~= ARGV[4] then
    putBack(kept)
  end
end
share(ARGV[1], ARGV[2], holder)
letReadersIn(shared, false) -- also those behind a batch whose parked attempts a release executed
if stranger then
  return 6
end
local reply = stood and 1 or 2
if ARGV[5] and (redis.pcall('GET', KEYS[6]) == shared or writerAhead('')) then
  return reply + 10
end
return reply
