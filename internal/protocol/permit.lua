-- permit: grants permits of a semaphore if enough of its slots are free at this node, and no
-- waiter has an earlier ticket: all that are asked for, or none. It counts the grant as the parts of a
-- set of locks are counted. A refused waiter joins the wait queue.
--
-- KEYS[1]   the semaphore's wait queue
-- KEYS[2]   says which waiter was woken, for five seconds; or, behind ?, whose client was challenged while
--           too few slots are free for it, for two seconds
-- KEYS[3]   the record of this run of the server; missing without a fencing token
-- ARGV[1]   the attempt's owner, a value that no other attempt has
-- ARGV[2]   time to live, in milliseconds
-- ARGV[3]   the counter of the stripe of slot 0, from which those of the others count on; '' for
--           no fencing token
-- ARGV[4]   the least count that shows the record to be whole
-- ARGV[5]   the ticket, which ends with * and the number of permits; '' for a caller that does not queue
-- ARGV[6]   the label of the ticket's client
-- ARGV[7]   the key of a slot, but for its number
-- ARGV[8]   how many slots there are
-- ARGV[9]   how many permits are asked for
-- ARGV[10]  the seed of the order in which slots are tried: nodes at which the same slots are free
--           grant the same
--
-- Returns {the count, slot, …} when granted; the count is 1 without a counter. Returns -1 as
-- acquire does; else {redlock::permits, or the reservation of the earlier waiter for which the
-- free slots are kept, the milliseconds until enough are free, and what acquire returns}; the last
-- number is 2 more if the first waiter, for which too few slots are free, keeps the caller out, and its client was
-- challenged within the last half a second.
--@slots
--@queue
--@ahead
--@several
--@serve
local ticket, n = ARGV[5], tonumber(ARGV[9])
base, size = ARGV[7], tonumber(ARGV[8])
redis.call('ZADD', line, 'XX', 0, ARGV[1]) -- as in read.lua: a full server refuses

local first = head()
local free = (not first or ticket ~= '' and ticket <= first) and freeSlots(tonumber(ARGV[10]), n, ARGV[1]) or {}
if #free == n then
  local stripes = {}
  for i, slot in ipairs(free) do
    stripes[i] = ARGV[3] ~= '' and (ARGV[3] + slot) % 256
  end
  local count = ARGV[3] == '' and 1 or countSeveral(KEYS[3], table.concat(stripes, ','), ARGV[4])
  if not count then
    return -1
  end
  for _, slot in ipairs(free) do
    redis.call('SET', base .. slot, ARGV[1], 'PX', ARGV[2])
  end
  if ticket ~= '' then
    if redis.call('PTTL', aliveOf(ticket)) < 3000 then
      -- Its client may have been challenged, and lives. This lasts until its next waiter polls.
      redis.call('SET', aliveOf(ticket), ARGV[6], 'PX', 5000)
    end
    if redis.call('ZREM', line, ticket) == 1 then
      serve()
    end
  end
  return {count, unpack(free)}
end

if foreign and n > size - foreigns then
  return foreign -- waiting would not help
end
local place, clients, new = 0, 0, false
if ticket ~= '' then
  place, new = join(ticket, ARGV[6])
  clients = clientsAhead(ticket, place)
  first = head()
end
if first and first ~= ticket then
  local _, turn, woken = serve(ticket)
  if turn then
    if woken and ticket ~= '' then
      place = 2 -- it watches over the one that is called
    end
    return {'redlock::reserved:' .. first, claim, place, clients, new and 1 or 0}
  end
end
-- While too few slots are free for the first waiter, but enough for this caller, the first one's client may be
-- dead, and is challenged: at most twice in a second, and not again for two seconds if it has answered, however
-- many callers ask. If the one that was challenged last is dead, those behind the first follow.
local challenged = false -- within the last half a second
if first and client(first) ~= client(ticket) and #freeSlots(nil, n) == n then
  local mark, before = '?' .. first, redis.pcall('GET', KEYS[2])
  local marked = type(before) == 'string' and string.sub(before, 1, 1) == '?'
  challenged = marked and redis.call('PTTL', KEYS[2]) > 2000 - claim
  if not challenged and before ~= mark and tell('look', first) then
    redis.call('PEXPIRE', aliveOf(first), claim)
    redis.call('SET', KEYS[2], mark, 'PX', 2000)
    if marked then
      muster({[client(first)] = true, [client(ticket)] = true})
    end
    challenged = true
  end
end
return {'redlock::permits', freeIn(first and wanted(first) or n), place, clients, (new and 1 or 0) + (challenged and 2 or 0)}
