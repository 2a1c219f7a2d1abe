-- handoff: gives a lock that became free to the first waiter; a part of the scripts that release one.
--
-- Needs at, claim, countSeveral, head, key, letReadersIn, queue, parkedKey, reads, reserve, tell, wantedKeys, wantsSeveral.

-- Executes the parked attempt of the first waiter, and sends the waiter the count. The keys
-- last as long as a reservation: a waiter that does not come delays others no longer. An
-- attempt of several locks is executed if all of them are free for it.
local function execute(first)
  local parked = first and redis.pcall('GET', parkedKey(first))
  if type(parked) ~= 'string' then
    return false
  end
  local keys = {key}
  if wantsSeveral(first) then
    keys = wantedKeys(first)
    if not keys then
      return false
    end
  end
  redis.call('DEL', parkedKey(first))
  local record, stripes, least, owner = string.match(parked, '^(%S*) (%S*) (%S*) (.*)$')
  if not owner then
    return false -- another program's
  end
  local count = 1
  if wantsSeveral(first) and stripes ~= '' then
    count = countSeveral(record, stripes, least)
  elseif stripes ~= '' then
    count = redis.call('HINCRBY', record, stripes, 1)
    if count < tonumber(least) then
      redis.call('DEL', record)
      count = nil
    end
  end
  if not count then
    return false
  end
  local here = key
  for _, other in ipairs(keys) do
    at(other)
    redis.call('ZREM', queue, first)
    redis.call('SET', key, owner, 'PX', claim)
  end
  at(here)
  tell('yours', first, string.format('%.0f ', count) .. owner)
  return true
end

-- Gives the free lock, whose key had the value held, to the first waiter. With executes, its
-- parked attempt is executed. asking and found are those of reserve. Returns the ticket of the
-- first waiter, and whether it was served; nil if nobody waits, and then the key is gone.
local function handOff(held, executes, asking, found)
  local first = head()
  if executes and first and not reads(first) and execute(first) then
    return first, true
  end
  if first and first ~= asking and reads(first) then
    letReadersIn(nil, executes, asking, found)
  elseif first then
    return first, reserve(first, asking, found)
  elseif held then
    redis.call('DEL', key)
  end
  return first, first ~= nil
end
