-- acquire: grants the lock at this node if nobody holds it, or waits for it with
-- an earlier ticket, and counts the grant. Who is refused joins the line, if it
-- has a ticket.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the attempt's owner, a value that no other attempt has
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counter of the lock's stripe; '' for no fencing token, and no record
-- ARGV[4]  the least count that shows the record to be whole
-- ARGV[5]  the ticket; missing for who does not wait
-- ARGV[6]  the label of the ticket's client
--
-- Returns when granted the count, or 1 without one; -1 when the counter was
-- missing: this server has lost its memory and must not vote; else {holder or
-- reservation, its remaining milliseconds, place in line or 0, length of the line
-- or 0}.
local granted = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if not granted or redis.call('EXISTS', 'redlock::line:' .. KEYS[1]) == 1 then
  --@line
  local ticket = ARGV[5]
  local holder = not granted and redis.call('GET', KEYS[1])
  local kept = reserved(holder)
  local first = (not holder or kept) and head()
  local open = not holder or kept and ticket and ticket < kept
  local ahead = first and not (ticket and ticket <= first)
  granted = ticket and kept == ticket or open and not ahead
  if not granted then
    if not holder then
      reserve(first)
    end
    local place, n = 0, 0
    if ticket then
      place, n = join(ticket, ARGV[6])
      if not holder or kept then
        place = place + 1 -- behind the one it is reserved for
      end
    end
    return {redis.call('GET', KEYS[1]), redis.call('PTTL', KEYS[1]), place, n}
  end
  if kept and kept ~= ticket then
    putBack(kept)
  end
  if ticket then
    redis.call('ZREM', line, ticket)
  end
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
end
if ARGV[3] == '' then
  return 1
end
local count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if count >= tonumber(ARGV[4]) then
  return count
end
redis.call('DEL', KEYS[1], KEYS[2])
return -1
