-- serve: wakes the waiters of a semaphore; a part of the scripts that grant or release permits, in
-- place of their @serve, behind the parts slots and queue. A slot is not reserved for a waiter: nobody
-- else gets one while the waiter's ticket is the first in the queue.

-- Returns the milliseconds until so many slots are free, if their keys are not prolonged; -1 if
-- that never happens.
local function freeIn(n)
  local ends = {}
  for slot = 0, size - 1 do
    local ms = redis.call('PTTL', base .. slot)
    ends[slot + 1] = ms == -1 and math.huge or math.max(ms, 0)
  end
  table.sort(ends)
  local last = ends[math.min(n, size)]
  return last == math.huge and -1 or last
end

-- Wakes the first waiter, unless it is the asking one, if enough slots are free for it. If it was
-- woken a while ago and has not come, its client is challenged, and those of the waiters behind
-- it, but for the asking one's. Returns the first waiter's ticket, whether it is its turn,
-- and whether it was woken now; nil if nobody waits.
local function serve(asking)
  local first = head()
  local n = first and wanted(first)
  if not first or #freeSlots(nil, n) < n then
    return first, false
  end
  if first == asking then
    return first, true
  end
  local woken = redis.pcall('GET', KEYS[2]) == first and redis.call('PTTL', KEYS[2])
  if woken and woken > 5000 - claim then
    return first, true
  end
  redis.call('SET', KEYS[2], first, 'PX', 5000)
  if woken then
    challenge('ready', first)
    muster({[client(first)] = true, [client(asking or '')] = true})
  else
    tell('ready', first)
  end
  return first, true, true
end
