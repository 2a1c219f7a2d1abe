-- release: drops the lock's key if it is this attempt's; a newer attempt's key stays. A
-- lock that becomes free goes to the first waiter: if its refused attempt is still parked
-- here, release executes that, as an attempt that was long on its way; else it reserves
-- the key for the waiter. A waiter that releases leaves the queue, or stays in it.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the lock's wait queue
-- KEYS[3]  the lock's readers
-- A key of another type in place of the queue, another program's, counts as no queue.
--
-- ARGV[1]  the owner of the attempt or lease to undo
-- ARGV[2]  the waiter's ticket, also of a waiter that got the lease; missing if the caller
--          was not queued; empty if it was not queued and got the lock though others wait
-- ARGV[3]  the label of the ticket's client, if the waiter stays in the queue; missing if
--          it leaves
--
-- Returns 1 when the key, or the share, was this attempt's and is gone; 4 when the share is
-- gone and others stand; 3 when it was this attempt's and the lock is now reserved for a
-- waiter or held by one, 2 when it is reserved for this ticket, 0 when the node has nothing
-- of the attempt.
--@value
local holder = valueOf(KEYS[1])
if holder == ARGV[1] and not ARGV[2] and redis.call('EXISTS', KEYS[2]) == 0 then
  return redis.call('DEL', KEYS[1]) -- most releases end here
end
local ticket, stays = ARGV[2], ARGV[3]
local found = ticket == '' or not holder
if ticket == '' then
  ticket = nil
end
local among = holder == 'redlock::shared'
if not ticket and not among and holder ~= ARGV[1] then
  return 0
end
--@lock
--@shares
--@foreign
local foreign = isForeign(queue)
local mine, others = holder == ARGV[1], false -- the key, or a share, was this attempt's
if among then
  mine = redis.call('ZREM', readers, ARGV[1]) == 1
  if not ticket and not mine then
    return 0
  end
  others = settle()
  if foreign or not ticket and redis.call('EXISTS', KEYS[2]) == 0 then
    return not mine and 0 or others and 4 or 1
  end
  holder = mine and ARGV[1]
  found = found or not mine
end
if foreign then
  return mine and redis.call('DEL', key) or 0
end
--@queue
--@reserve
--@join
--@readers

--@count
--@handoff

local kept = reserved(holder)
local keptForIt = ticket and kept == ticket
local waited = false
if stays then
  join(ticket, stays)
  redis.call('DEL', parkedKey(ticket))
elseif ticket then
  waited = leave(ticket)
end
if others then
  if waited then
    letReadersIn(shared, false) -- those that a writer was ahead of, which has left
  end
  return mine and 4 or 0
end
if not holder or mine or keptForIt and not stays then
  -- A waiter's rollback executes no parked attempt: the key would pass from one parked
  -- attempt to the next, and no renewal could restore it.
  local first, served = handOff(holder, mine and not stays and not found, ticket, found)
  if served and first == ticket then
    return 2
  end
  return not mine and 0 or first and 3 or 1
end
if waited then
  follow(ticket)
end
return keptForIt and 2 or 0
