-- permit: grants permits of a semaphore, all that are asked for or none. A waiter gets them if so many slots are free
-- at this node that enough are left for all waiters with earlier tickets, unless one of these had to give slots
-- back lately. A caller without a ticket gets none while others wait. The grant is counted as the parts of a
-- set of locks are. A refused waiter joins the wait queue.
--
-- KEYS[1]   the semaphore's wait queue
-- KEYS[2]   the record of this run of the server
-- ARGV[1]   the attempt's owner, a value that no other attempt has
-- ARGV[2]   time to live, in milliseconds
-- ARGV[3]   the counter of the stripe of slot 0, from which those of the others count on
-- ARGV[4]   the least count that shows the record to be whole
-- ARGV[5]   the ticket, which ends with * and the number of permits; '' for a caller that does not queue
-- ARGV[6]   the label of the ticket's client
-- ARGV[7]   the key of a slot, but for its number
-- ARGV[8]   how many slots there are
-- ARGV[9]   how many permits are asked for
-- ARGV[10]  the seed of the order in which slots are tried, below 2^32: nodes at which the same slots are free
--           grant the same
-- ARGV[11]  1 from a caller without a ticket that will ask again with one; else missing
--
-- Returns, when granted, {the count, slot, …}. Returns -1 as acquire does, but then nothing is changed.
-- Returns, to a caller that neither queues nor will, if nobody waits: {redlock::permits, the
-- milliseconds until enough are free, the slots' owners}: of each slot, in order, the first four
-- bytes of its owner, filled up with ?, or four blanks if the slot is free.
-- Returns else {redlock::permits, or the reservation of the first waiter if the free slots are kept
-- for it, the milliseconds until enough are free, and what acquire returns}.
--@value
--@slots
--@count
local ticket, n = ARGV[5], tonumber(ARGV[9])
base, size = ARGV[7], tonumber(ARGV[8])

-- Grants these slots. Returns the count, or nil if a counter is missing.
local function take(slots)
  local stripes = {}
  for i, slot in ipairs(slots) do
    stripes[i] = (ARGV[3] + slot) % 256
  end
  local count = countSeveral(KEYS[2], table.concat(stripes, ','), ARGV[4])
  for _, slot in ipairs(count and slots or {}) do
    redis.call('SET', base .. slot, ARGV[1], 'PX', ARGV[2])
  end
  return count
end

local waits = ticket == '' and ARGV[11] == '1'
local owners = ticket == '' and not waits and {} or nil
local free
-- Most attempts end here: the caller has no ticket, there is no queue of whatever type, and, where it matters,
-- no note that no slot is free. So nobody is ahead, and the rest of the script would choose the same slots, and
-- grant them. A full server refuses the first command that writes. If too few slots are free, the rest goes on
-- with what was found here.
if ticket == '' and redis.call('EXISTS', queue) == 0 and not (waits and redis.pcall('EXISTS', 'redlock::full:' .. key) ~= 0) then
  free = freeSlots(tonumber(ARGV[10]), n, ARGV[1], owners)
  local count = #free == n and take(free)
  if count then
    return {count, unpack(free)}
  end
end
redis.call('ZADD', queue, 'XX', 0, ARGV[1]) -- as in read.lua: a full server refuses
--@queue
--@waiting
--@join
--@serve

local first = head()
local leads = not first or ticket ~= '' and ticket <= first -- no waiter is ahead
local full = (waits or not leads) and markAt(fullKey(), 100)
full = full and tonumber(full)
if full and waits then
  return {'redlock::permits', full, 0, ''}
end
local ahead = leads and 0 or not full and ticket ~= '' and wantedAhead(ticket, size - n)
free = free or ahead and freeSlots(tonumber(ARGV[10]), ahead + n, ARGV[1], owners) or {}
if ahead and #free == ahead + n then
  free = {unpack(free, 1, n)} -- the others are the earlier waiters'
  local count = take(free)
  if not count then
    return -1
  end
  if ticket ~= '' then
    answer(ticket)
    if redis.pcall('GET', splitKey()) == ticket then
      redis.call('DEL', splitKey())
    end
    if redis.call('ZREM', queue, ticket) == 1 then
      serve()
    end
  end
  return {count, unpack(free)}
end

if foreign and n > size - foreigns then
  return foreign -- waiting would not help
end
if owners and not first then
  -- The owners show the caller whether other leases have the permits, or the votes were split.
  local names = {}
  for slot = 0, size - 1 do
    names[slot + 1] = owners[slot] and string.sub(owners[slot] .. '????', 1, 4) or '    '
  end
  return {'redlock::permits', freeIn(n), table.concat(names)}
end
local place, flags = 0, ''
if ticket ~= '' then
  place, flags = join(ticket, ARGV[6])
  first = head()
end
if full and first and first ~= ticket then
  return {'redlock::permits', full, place, flags}
end
if first and first ~= ticket then
  local served, turn = serve(ticket, nil, true)
  if turn and served == ticket then
    tell('ready', ticket) -- those ahead were dead
  end
  if turn then
    return {'redlock::reserved:' .. first, claim, place, flags .. flagsFor(first, ticket)}
  end
end
-- While too few slots are free for the first waiter, but enough for this caller, the first one's client may be dead.
if first and client(first) ~= client(ticket) and #freeSlots(nil, n) == n then
  flags = flags .. flagsFor(first, ticket, true)
end
local ms, soonest = freeIn(first and wanted(first) or n)
if (first or waits) and soonest > 0 then -- no slot is free: callers that are not the first waiter need not look for a while
  redis.call('SET', fullKey(), ms, 'PX', math.min(soonest, 100))
end
return {'redlock::permits', ms, place, flags}
