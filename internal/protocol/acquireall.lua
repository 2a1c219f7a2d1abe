-- acquireall: grants several locks, all of them or none, and counts that as one grant of each. A
-- lock is to be had if it has no holder at this node, and no waiter with an earlier ticket. A
-- refused waiter joins the wait queues of all locks, and its attempt may be parked.
--
-- KEYS[1]…[n]     the locks' keys, in the order of their bytes
-- KEYS[n+1]…[2n]  the locks' wait queues
-- KEYS[2n+1]      the record of this run of the server
-- ARGV[1]  the attempt's owner, a value that no other attempt has
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counters of the locks' stripes, with commas between
-- ARGV[4]  the least count that shows the record to be whole
-- ARGV[5]  the ticket, which ends with +; '' for a caller that does not queue
-- ARGV[6]  the label of the ticket's client
-- ARGV[7]  the owner of the ticket's previous attempt, or ''
-- ARGV[8]  for how many milliseconds this attempt is parked if it is refused, or '0'
--
-- Returns the count when granted: it is greater than every count before it
-- of each lock; -1 as acquire does, but then nothing is changed; else {holder or reservation of the
-- first lock that is not to be had, the longest remaining milliseconds of those locks, the farthest
-- position in the queues, the flags of acquire}.
--@value
--@count
local n = math.floor(#KEYS / 2)
local record = KEYS[2 * n + 1]
local ticket, before = ARGV[5], ARGV[7]
-- Most attempts end here: no lock has a key, and so no holder, reservation, share or rest; and no lock has
-- a queue, of whatever type. The rest of the script would find no lock that refuses, count, set the same
-- keys, find nobody to wake or to tell, and drop the ticket's parked attempt, as this does. A full server
-- refuses the first command that writes.
if redis.call('EXISTS', unpack(KEYS, 1, 2 * n)) == 0 then
  local count = countSeveral(record, ARGV[3], ARGV[4])
  if count then
    for i = 1, n do
      redis.call('SET', KEYS[i], ARGV[1], 'PX', ARGV[2])
    end
    if ticket ~= '' then
      redis.call('DEL', 'redlock::parked:' .. ticket)
    end
    return count
  end
end
redis.call('ZADD', KEYS[n + 1], 'XX', 0, ARGV[1]) -- as in read.lua: a full server refuses
--@lock
--@queue
--@reserve
--@join
--@holder
--@several

-- Reports whether the key is this ticket's already: reserved for it, or executed late.
local function isMine(holder)
  return ticket ~= '' and reserved(holder) == ticket or before ~= '' and holder == before
end

-- Returns the holder of the lock, whose key has this value, or the ticket that keeps it; nil if it is to be had.
local function blocker(holder)
  if isMine(holder) then
    return nil
  end
  local kept = reserved(holder)
  if holder and not (kept and ticket ~= '' and ticket < kept) then
    return holder
  end
  local first = head()
  return first and (ticket == '' or first < ticket) and 'redlock::reserved:' .. first or nil
end

local holders = {} -- the keys' values: what follows changes a key for itself only
local refusing, left
for i = 1, n do
  at(KEYS[i])
  holders[i] = standing(valueOf(key), ticket)
  local holder = blocker(holders[i])
  if holder then
    refusing = refusing or holder
    local ms = redis.call('PTTL', key)
    if ms == -2 then
      ms = claim -- it is free, and will be reserved
    end
    left = (left == -1 or ms == -1) and -1 or math.max(left or 0, ms)
  end
end

if not refusing then
  local count = countSeveral(record, ARGV[3], ARGV[4])
  if not count then
    return -1
  end
  local awaited = false
  for i = 1, n do
    at(KEYS[i])
    local holder = holders[i]
    local kept = reserved(holder)
    if kept and kept ~= ticket then
      putBack(kept)
    end
    redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
    if ticket ~= '' then
      if isMine(holder) then
        answer(ticket)
      end
      redis.call('ZREM', queue, ticket)
      awaited = awaited or string.sub(ARGV[1], 27, 27) == '!' and head()
    end
  end
  if awaited then
    tellHolder(ARGV[1]) -- others wait already
  end
  if ticket ~= '' then
    redis.call('DEL', parkedKey(ticket))
  end
  return count
end

local flags, far = '', 0

-- Adds the flags that concern the ticket, if any, that keeps this one out of the lock.
local function keptOutBy(other)
  if other and other ~= ticket then
    flags = flags .. flagsFor(other, ticket, wantsSeveral(other))
  end
end

refused[ticket] = true
for i = 1, n do
  at(KEYS[i])
  local holder = holders[i]
  if isMine(holder) then
    redis.call('DEL', key) -- of no use without the others
    holder = nil
  end
  if ticket ~= '' then
    local place, joined = join(ticket, ARGV[6])
    if place == 1 or string.find(joined, 'n', 1, true) then
      tellHolder(holder)
    end
    far, flags = math.max(far, place), flags .. joined
    keptOutBy(reserved(holder))
  end
end
if ticket ~= '' then
  want(ticket, n)
  park(ticket, ARGV[8], record, ARGV[3], ARGV[4], ARGV[1])
end
for i = 1, n do
  at(KEYS[i])
  local first = redis.call('EXISTS', key) == 0 and head()
  if first then
    reserve(first, ticket, true)
    keptOutBy(first)
  end
end
return {refusing, left, far, flags}
