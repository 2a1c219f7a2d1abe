-- waiting: what the waiters of a semaphore want; a part of the scripts that grant or release permits.
--
-- Needs key, queue, markAt.

-- Returns how many permits a ticket wants.
local function wanted(ticket)
  return tonumber(string.match(ticket, '%*(%d+)$')) or 1
end

-- Returns the key that has the earliest ticket whose waiter has given slots back, since the nodes chose
-- differently for it, and waits on.
local function splitKey()
  return 'redlock::split:' .. key
end

-- Returns that ticket; nil if there is none.
local function splitFor()
  return markAt(splitKey(), 1000)
end

-- Returns how many permits the waiters with tickets before this one want; nil if these are more than most. It
-- returns nil also if one of them gave slots back within the last second, since it may need just those that are
-- free; and if one has another number of slots, since a free slot may be none of its own.
local function wantedAhead(ticket, most)
  local split = splitFor()
  if split and split < ticket then
    return nil
  end
  local limit, sum = string.match(ticket, '/%d+%*'), 0
  for from = 0, most, 64 do
    local chunk = redis.call('ZRANGE', queue, from, from + 63)
    for _, other in ipairs(chunk) do
      if other >= ticket then
        return sum
      end
      sum = sum + wanted(other)
      if sum > most or string.match(other, '/%d+%*') ~= limit then
        return nil
      end
    end
    if #chunk < 64 then
      return sum
    end
  end
  return sum
end
