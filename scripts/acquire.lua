-- acquire: grants the lock to who waits if nobody holds it at this node, or waits for
-- it with an earlier ticket, and counts the grant. Who is refused joins the line.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the attempt's owner, a value that no other attempt has
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counter of the lock's stripe; '' for no fencing token, and no record
-- ARGV[4]  the least count that shows the record to be whole
-- ARGV[5]  the ticket
-- ARGV[6]  the label of the ticket's client
-- ARGV[7]  the owner of the ticket's attempt before this one, which may have been
--          executed late; '' for none
-- ARGV[8]  how long this attempt may be executed late if it is refused now, in
--          milliseconds; '0' for not at all. See release
--
-- Returns when granted the count, or 1 without one; -1 when the counter was
-- missing: this server has lost its memory and must not vote; else {holder or
-- reservation, its remaining milliseconds, place in line}.
local granted = redis.call('SET', KEYS[1], ARGV[1], 'NX', 'PX', ARGV[2])
if not granted or redis.call('EXISTS', 'redlock::line:' .. KEYS[1]) == 1 then
  --@line
  local ticket = ARGV[5]
  local holder = not granted and redis.call('GET', KEYS[1])
  local kept = reserved(holder)
  if kept == ticket or holder == ARGV[7] then
    local alive = 'redlock::alive:' .. client(ticket)
    if redis.call('PTTL', alive) < 5000 then
      redis.call('SET', alive, ARGV[6], 'PX', 751000) -- see reserve; others of it may wait
    end
  else
    -- It must be the first, before whom the key is reserved for and who waits.
    local found = false
    local open = not holder or kept and ticket < kept
    local first = open and head()
    granted = open and (not first or ticket <= first)
    if open and not granted and not holder then
      reserve(first, nil, true)
      holder = 'redlock::reserved:' .. first
      found = true
    end
    if not granted then
      local place = join(ticket, ARGV[6])
      if ARGV[8] ~= '0' then
        redis.call('SET', bidOf(ticket), table.concat({KEYS[2] or '', ARGV[3], ARGV[4], ARGV[1]}, ' '), 'PX', ARGV[8])
      end
      if found then
        place = 2 -- it watches over the one that is called
      elseif kept then
        place = place + 1 -- behind the one it is reserved for
      end
      return {holder, redis.call('PTTL', KEYS[1]), place}
    end
    if kept then
      putBack(kept)
    end
  end
  redis.call('ZREM', line, ticket)
  redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
  tellSecond()
end
if ARGV[3] == '' then
  return 1
end
local count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if count >= tonumber(ARGV[4]) then
  if count == 1 then
    -- No admission: see admit for why.
    redis.call('HSET', KEYS[2], 'about', 'counters of fencing tokens, by stripe; without admission they begin at 0')
  end
  return count
end
redis.call('DEL', KEYS[1], KEYS[2])
return -1
