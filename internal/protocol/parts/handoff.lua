-- handoff: gives a lock that became free to the first waiter; a part of the scripts that release one.
--
-- Needs at, claim, countSeveral, head, key, letReadersIn, queue, reads, reserve, takeParked, tell, wantedKeys, wantsSeveral, watch.

-- Executes the parked attempt of the first waiter, and sends the waiter the count. The keys
-- last as long as a reservation: a waiter that does not come delays others no longer. An
-- attempt of several locks is executed if all of them are free for it. Returns the keys; false if it does not.
local function execute(first)
  local several = wantsSeveral(first)
  local keys = not several and {key} or wantedKeys(first)
  if not keys then
    return false
  end
  local record, stripes, least, owner = takeParked(first)
  local count
  if owner and several then
    count = countSeveral(record, stripes, least)
  elseif owner then
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
  return keys
end

-- Gives the free lock, whose key had the value held, to the first waiter. With executes, its
-- parked attempt is executed. asking and found are those of reserve. Returns the ticket of the
-- first waiter, and whether it was served; nil if nobody waits, and then the key is gone.
local function handOff(held, executes, asking, found)
  local first = head()
  if not first then
    if held then
      redis.call('DEL', key)
    end
    return nil, false
  end
  local keys = {key} -- of the locks that it gets
  if first ~= asking and reads(first) then
    letReadersIn(nil, executes, asking, found)
  else
    keys = executes and not reads(first) and execute(first)
    keys = keys or reserve(first, asking, found)
  end
  local here = key
  for _, other in ipairs(keys or {}) do
    at(other)
    watch(first)
  end
  at(here)
  return first, keys and true
end
