-- serve: wakes the waiters of a semaphore; a part of the scripts that grant or release permits. A slot is not
-- reserved for a waiter: permit.lua leaves enough of them for the waiters that are ahead of a caller.
--
-- Needs base, challenge, claim, client, dead, eachClient, freeSlots, head, key, queue, markAt, muster, size, tell, wanted.

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

-- Has the waiters look that want no more than are free, the first of each of up to three clients: the
-- first waiter wants more. If its client is dead, they find that, and get what it keeps from them. While it
-- lives nobody passes it, so that no more releases than there are slots do this.
local function haveOthersLook(first, free)
  eachClient({[client(first)] = true}, 3, function(ticket)
    return wanted(ticket) <= free
  end, function(ticket)
    tell('look', ticket)
  end)
end

-- Wakes waiters, unless one is the asking one: the first if enough slots are free for it, and up to fifteen
-- behind it as long as slots are left for them too. Each is woken once, and once more when it becomes the first:
-- it may have come into the queue after those behind it were woken. If the first was woken a while ago
-- and has not come, its client is challenged, and those of the waiters behind it, but for the asking
-- one's. known is how many slots are free at least. Returns the first waiter's ticket, whether it is its
-- turn, and whether that began now; nil if nobody waits.
local function serve(asking, known)
  local first = head(true)
  if not first then
    return nil
  end
  local waiters = redis.call('ZRANGE', queue, 0, 15)
  local mark, woken = markAt(KEYS[2], 5000)
  local before, told = string.match(mark or '', '^(%d%S*) (%S+)$')
  local n, free = wanted(first), known or 0
  -- Those behind a waiter that was woken, and has not come, get what was released since.
  if free < n or before == first and #waiters > 1 then
    free = #freeSlots(nil, #waiters == 1 and n or n + 15)
  end
  if free < n then
    if (known or 0) > 0 then
      haveOthersLook(first, free)
    end
    return first, false
  end
  if dead(first) then -- nobody holds what it wants: head drops those that it hurried
    head()
    return serve(asking, known)
  end
  if first == asking then
    return first, true
  end
  woken = before == first and woken
  local upto = told or ''
  for _, ticket in ipairs(waiters) do
    free = free - wanted(ticket)
    if free < 0 then
      break
    end
    if ticket > upto or ticket == first and before ~= first then
      if ticket ~= asking then
        tell('ready', ticket)
      end
      upto = ticket > upto and ticket or upto
    end
  end
  if woken and woken <= 5000 - claim then
    challenge('ready', first)
    muster({[client(first)] = true, [client(asking or '')] = true})
    woken = false
  end
  if not woken then
    redis.call('SET', KEYS[2], first .. ' ' .. upto, 'PX', 5000)
  elseif upto ~= told then
    redis.call('SET', KEYS[2], first .. ' ' .. upto, 'KEEPTTL')
  end
  return first, true, not woken
end
