-- read: grants a share of the lock, unless a writer holds the lock, or waits for it with an
-- earlier ticket; a caller without a ticket gives way to every writer that waits. A refused
-- waiter joins the wait queue, and its attempt may be parked.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- KEYS[3]  the lock's wait queue
-- KEYS[4]  the lock's readers
-- ARGV     as acquire's; the ticket ends with r, or is '' for a caller that does not queue
--
-- Returns as acquire does; a caller that does not queue gets {holder or reservation, its remaining milliseconds}. The holder may be
-- redlock::shared where a writer waits ahead. The count is the node's, and not counted on: readers
-- that hold the lock together have the same token. Without admission a count that is missing
-- becomes 1. Where -1 is returned, nothing is changed.
--@value
local ticket, before = ARGV[5], ARGV[7]
local count = tonumber(redis.call('HGET', KEYS[2], ARGV[3]))
if not count and ARGV[4] == '1' then
  -- Without admission counters begin at 0; admit.lua says what the field is for.
  redis.call('HSET', KEYS[2], 'about', 'counters of fencing tokens, by stripe; without admission they begin at 0')
  count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
end
if not count or count < tonumber(ARGV[4]) then
  return -1
end
-- A server whose memory is full refuses a script that adds something, unless the script has
-- dropped something before. This adds nothing, and has it refuse readers as it refuses writers.
redis.call('ZADD', KEYS[3], 'XX', 0, ARGV[1])
local holder = valueOf(KEYS[1])
-- Most first readers end here: the lock has no key, no queue and no set of readers, of whatever type. The rest
-- of the script would give the same share: the only one.
if before == '' and not holder and redis.call('EXISTS', KEYS[3], KEYS[4]) == 0 then
  local clock = redis.call('TIME')
  local ends = clock[1] * 1000 + math.floor(clock[2] / 1000) + ARGV[2]
  redis.call('PEXPIREAT', KEYS[4], ends) -- without the right for this no set is made
  redis.call('ZADD', KEYS[4], ends, ARGV[1])
  redis.call('PEXPIREAT', KEYS[4], ends)
  redis.call('SET', KEYS[1], 'redlock::shared', 'PXAT', ends)
  return count
end
--@lock
--@shares
if before == '' and (not holder or holder == shared) and redis.call('EXISTS', KEYS[3]) == 0 then
  share(ARGV[1], ARGV[2], holder)
  return count
end
--@queue
--@reserve
--@join
--@holder
--@readers
local took = false -- the node has executed the attempt before: this one takes its place
if holder == shared and before ~= '' and redis.call('ZREM', readers, before) == 1 then
  took = true
  holder = settle() and shared
end
local kept
holder, kept = standing(holder, ticket)
local writer = nil -- that is ahead
local open = took or ticket ~= '' and kept == ticket
if open then
  answer(ticket)
elseif not holder or holder == shared or kept and (reads(kept) or ticket ~= '' and ticket < kept) then
  writer = writerAhead(ticket)
  open = not writer
end
if open then
  if kept and kept ~= ticket and not reads(kept) then
    putBack(kept)
  end
  share(ARGV[1], ARGV[2], holder)
  if ticket ~= '' then
    redis.call('ZREM', queue, ticket)
    redis.call('DEL', parkedKey(ticket))
    letReadersIn(shared, false, ticket, false, ticket)
  end
  return count
end
local inTheWay, among = writer or kept, holder == shared
if not holder then -- free, but a writer is ahead
  local first = head()
  if reads(first) then
    letReadersIn(nil, false, ticket, true)
  else
    reserve(first, ticket, true)
  end
  holder = valueOf(KEYS[1])
  inTheWay = reserved(holder)
end
if ticket == '' then
  if among then
    doubt(writer, ticket)
  end
  return {holder, redis.call('PTTL', KEYS[1])}
end
--@refuse
