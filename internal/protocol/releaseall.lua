-- releaseall: drops the keys of several locks that are this attempt's; a newer attempt's keys
-- stay. The locks that become free go to their first waiters, as release gives one. A waiter
-- that releases leaves all queues, or stays in them.
--
-- KEYS[1]…[n]      the locks' keys
-- KEYS[n+1]…[2n]   the locks' wait queues
-- KEYS[2n+1]…[3n]  the locks' readers
-- ARGV             as release's
--
-- Returns 1 when all keys were this attempt's, and are gone; 3 when they were, and a lock is now
-- reserved for a waiter, or held by one; 2 when the locks are reserved for this ticket; 0 when some
-- of the keys were not this attempt's: those that were are gone.
--@value
local n = #KEYS / 3
local ticket, stays = ARGV[2], ARGV[3]
local passed = ticket == '' -- waiters that were woken before and did not come
if passed then
  ticket = nil
end
-- Most releases end here: no lock has a queue, of whatever type, and the caller never waited. Its keys are
-- dropped; other keys stay, whatever they are. The rest of the script would find nobody to hand a lock to.
if not ticket and redis.call('EXISTS', unpack(KEYS, n + 1, 2 * n)) == 0 then
  local mine = {}
  for i = 1, n do
    if redis.pcall('GETRANGE', KEYS[i], '0', '511') == ARGV[1] then -- another type is not
      mine[#mine + 1] = KEYS[i]
    end
  end
  if #mine > 0 then
    redis.call('DEL', unpack(mine))
  end
  return #mine == n and 1 or 0
end
--@lock
--@shares
--@queue
--@reserve
--@join
--@readers
--@count
--@several
--@handoff
--@foreign

local mine, free = 0, {} -- mine: the number of keys that were this attempt's. free: whether the lock was free before, by the number of those that are free now
local foreign = {} -- by the number of a lock
for i = 1, n do
  at(KEYS[i])
  local holder = valueOf(key, true)
  if type(holder) == 'table' then
    holder = '' -- of another type: another program's
  end
  local kept = ticket and reserved(holder) == ticket
  if holder == ARGV[1] or kept then
    mine = mine + (kept and 0 or 1)
    free[i] = passed
    redis.call('DEL', key)
  elseif ticket and not holder then
    free[i] = true
  end
  foreign[i] = isForeign(queue)
  if foreign[i] then
    free[i] = nil
  elseif stays then
    join(ticket, stays)
  elseif ticket and leave(ticket) then
    if holder == shared then
      letReadersIn(shared, false) -- those that this ticket was ahead of
    elseif free[i] == nil then
      follow(ticket)
    end
  end
end
if stays then
  redis.call('DEL', parkedKey(ticket))
  want(ticket, n)
elseif ticket then
  redis.call('DEL', 'redlock::wants:' .. ticket)
end
local handed, keptForIt = false, false
for i = 1, n do
  at(KEYS[i])
  if free[i] ~= nil and redis.call('EXISTS', key) == 0 then
    local first, served = handOff(nil, mine > 0 and not stays and not free[i], ticket, free[i])
    keptForIt = keptForIt or served and first == ticket
    handed = handed or first and first ~= ticket
  end
end
return keptForIt and 2 or mine < n and 0 or handed and 3 or 1
