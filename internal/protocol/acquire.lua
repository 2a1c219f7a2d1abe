-- acquire: grants the lock to a waiter if it has no holder at this node and no waiter
-- with an earlier ticket, and counts the grant. A refused waiter joins the wait queue, and
-- its attempt may be parked.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the attempt's owner, a value that no other attempt has
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counter of the lock's stripe
-- ARGV[4]  the least count that shows the record to be whole
-- ARGV[5]  the ticket
-- ARGV[6]  the label of the ticket's client
-- ARGV[7]  the owner of the ticket's previous attempt, which this node may have parked and
--          executed; '' for none
-- ARGV[8]  for how many milliseconds this attempt is parked if it is refused: release may
--          execute it meanwhile; '0' if it is not parked
--
-- Returns the count when granted; -1 when the counter was missing: this server has lost its memory and
-- must not vote, so nothing is granted, and the record is deleted; else {holder or reservation, its
-- remaining milliseconds, position in the queue, flags}. The flags are letters, in any order: n if the
-- ticket is new in the queue; u if the node cannot wake its client; c if a client ahead of it is
-- challenged, so that the waiter looks again when that is over; d and milliseconds if the waiter looks
-- again then, since a client that waits for something else keeps it out of what is free, or since it
-- has joined after others were told to look.
--@value
local granted = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if not granted or redis.call('EXISTS', 'redlock::queue:' .. KEYS[1]) == 1 then
  --@lock
  --@queue
  --@reserve
  --@join
  --@holder

  local ticket = ARGV[5]
  local holder, kept = standing(not granted and valueOf(KEYS[1]), ticket)
  -- Another program has set an empty value; it must not match an empty ARGV[7].
  if kept == ticket or holder == ARGV[7] and holder ~= '' then
    answer(ticket)
  else
    -- Its ticket must be earlier than the reservation's, and than all in the queue.
    local open = not holder or kept and ticket < kept
    local first = open and head()
    granted = open and (not first or ticket <= first)
    local inTheWay, among = kept, false
    if open and not granted and not holder then
      reserve(first, ticket, true)
      inTheWay, holder = first, 'redlock::reserved:' .. first
    end
    if not granted then
      --@refuse
    end
    if kept then
      putBack(kept)
    end
  end
  redis.call('ZREM', queue, ticket)
  redis.call('DEL', parkedKey(ticket))
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  if string.sub(ARGV[1], 27, 27) == '!' and head() then
    tellHolder(ARGV[1]) -- others wait already
  end
end
local count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if count >= tonumber(ARGV[4]) then
  if count == 1 then
    -- Without admission no record was made: admit.lua says what the field is for.
    redis.call('HSET', KEYS[2], 'about', 'counters of fencing tokens, by stripe; without admission they begin at 0')
  end
  return count
end
redis.call('DEL', KEYS[1], KEYS[2])
return -1
