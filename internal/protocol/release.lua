-- release: drops the lock's key if it is this attempt's; a newer attempt's key stays. A
-- lock that becomes free goes to the first waiter: if its refused attempt is still parked
-- here, release executes that, as an attempt that was long on its way; else it reserves
-- the key for the waiter. A waiter that releases leaves the queue, or stays in it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the owner of the attempt or lease to undo
-- ARGV[2]  the waiter's ticket, also of a waiter that got the lease; missing if the caller
--          was not queued; empty if it was not queued and got the lock though others wait
-- ARGV[3]  the label of the ticket's client, if the waiter stays in the queue; missing if
--          it leaves
--
-- Returns 1 when the key was this attempt's and is gone, 3 when it was this attempt's and
-- is now reserved for a waiter or held by one, 2 when it is reserved for this ticket, 0
-- when the node has nothing of the attempt.
local holder = redis.call('GET', KEYS[1])
local ticket, stays = ARGV[2], ARGV[3]
local found = ticket == '' or not holder
if ticket == '' then
  ticket = nil
end
if not ticket and holder ~= ARGV[1] then
  return 0
end
if not ticket and redis.call('EXISTS', 'redlock::line:' .. KEYS[1]) == 0 then
  return redis.call('DEL', KEYS[1])
end
--@line

-- Executes the parked attempt of the first waiter, and sends the waiter the count. The
-- key lasts as long as a reservation: a waiter that does not come delays others no longer.
local function execute(first)
  local parked = first and redis.call('GET', parkedKey(first))
  if not parked then
    return false
  end
  redis.call('DEL', parkedKey(first))
  local record, stripe, least, owner = string.match(parked, '^(%S*) (%S*) (%S*) (.*)$')
  local count = 1
  if stripe ~= '' then
    count = redis.call('HINCRBY', record, stripe, 1)
    if count < tonumber(least) then
      redis.call('DEL', record)
      return false
    end
  end
  redis.call('ZREM', line, first)
  redis.call('SET', KEYS[1], owner, 'PX', claim)
  tell('yours', first, string.format('%.0f ', count) .. owner)
  return true
end

local kept = reserved(holder)
local mine = ticket and kept == ticket
if stays then
  join(ticket, stays)
  redis.call('DEL', parkedKey(ticket))
elseif ticket then
  local waited = redis.call('ZREM', line, ticket) == 1
  if waited then
    redis.call('DEL', parkedKey(ticket))
  end
  if (waited or mine) and redis.call('PTTL', aliveOf(ticket)) <= claim then
    -- Its client was challenged, and shows by this release that it lives. This lasts
    -- until the client's next waiter polls.
    redis.call('PEXPIRE', aliveOf(ticket), 5000)
  end
end
if not holder or holder == ARGV[1] or mine and not stays then
  -- A waiter's rollback executes no parked attempt: the key would pass from one parked
  -- attempt to the next, and no renewal could restore it.
  if holder == ARGV[1] and not stays and not found and execute(redis.call('ZRANGE', line, 0, 0)[1]) then
    return 3
  end
  local first = head()
  if first then
    reserve(first, ticket, found)
  elseif holder then
    redis.call('DEL', KEYS[1])
  end
  if first and first == ticket then
    return 2
  end
  return holder ~= ARGV[1] and 0 or first and 3 or 1
end
return mine and 2 or 0
