-- serve: wakes the waiters of a semaphore; a part of the scripts that grant or release permits. A slot is not
-- reserved for a waiter: permit.lua leaves enough of them for the waiters that are ahead of a caller.
--
-- Needs base, challenge, doubt, freeSlots, head, isChallenged, key, queue, muster, size, tell, wanted, watch.

-- Returns the key of the note that no slot is free, whose value is what freeIn returned. It lasts for a tenth of
-- a second at most, and a release deletes it if somebody waits.
local function fullKey()
  return 'redlock::full:' .. key
end

-- Returns the milliseconds until so many slots are free, if their keys are not prolonged; -1 if
-- that never happens. Returns also those until the first of them ends, 0 if a slot is free.
local function freeIn(n)
  local ends = {}
  for slot = 0, size - 1 do
    local ms = redis.call('PTTL', base .. slot)
    ends[slot + 1] = ms == -1 and math.huge or math.max(ms, 0)
  end
  table.sort(ends)
  local last = ends[math.min(n, size)]
  return last == math.huge and -1 or last, ends[1]
end

-- Wakes waiters, unless one is the asking one: the first if enough slots are free for it, and up to fifteen behind it as
-- long as slots are left for them too. released is how many slots a release has made free, nil if none did: those behind
-- the first for which enough were free before have been woken before, but for one that has just become the sixteenth. The client of the first is challenged by that. found
-- is set if the script found the slots free: an earlier waiter may have been woken and not have come, so others are
-- challenged too. Returns the first waiter's ticket, and whether it is its turn; nil if nobody waits.
local function serve(asking, released, found)
  local first = head()
  if not first then
    return nil
  end
  local waiters = redis.call('ZRANGE', queue, 0, 15)
  local n, free = wanted(first), released or 0
  if free < n or #waiters > 1 and isChallenged(first) then
    free = #freeSlots(nil, #waiters == 1 and n or n + 15)
  end
  if free < n then
    if released then
      doubt(first, asking)
      watch(first)
    end
    return first, false
  end
  if first == asking then
    return first, true
  end
  local before = free - (released or 0)
  for i, ticket in ipairs(waiters) do
    free, before = free - wanted(ticket), before - wanted(ticket)
    if free < 0 then
      break
    end
    if i > 1 and ticket ~= asking and (before < 0 or not released and i == 16) then
      tell('ready', ticket)
    end
  end
  if challenge('ready', first) and found then
    muster(first, asking)
  end
  watch(first)
  return first, true
end
