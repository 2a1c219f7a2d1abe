-- release: drops the lock's key if it is this attempt's; a newer one stays. What
-- becomes free goes to the first in line: if its refused attempt, its bid, is still
-- here, that is executed now, as one that was long on its way; else the key is
-- reserved for it. Who waits leaves the line, or stays in it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the owner of the attempt or lease to undo
-- ARGV[2]  the ticket of who waits, or waited for the lease; missing if it did not;
--          empty for who did not and found the lock free though others wait
-- ARGV[3]  the label of the ticket's client, if it is to stay; missing if it leaves
--
-- Returns 1 when the key was this attempt's and is gone, 3 when it is somebody else's
-- now or reserved, 2 when it is for this ticket, 0 when there was nothing of it.
local holder = redis.call('GET', KEYS[1])
local ticket, stays = ARGV[2], ARGV[3]
local found = ticket == '' or not holder
if ticket == '' then
  ticket = nil
end
if not ticket and holder ~= ARGV[1] then
  return 0
end
if not ticket and redis.call('EXISTS', 'redlock::line:' .. KEYS[1]) == 0 then
  return redis.call('DEL', KEYS[1])
end
--@line

-- Executes the bid of the first in line, and tells it the count. Its key lasts as
-- long as a reservation: should it not come, it holds up nobody for longer.
local function execute(first)
  local bid = first and redis.call('GET', bidOf(first))
  if not bid then
    return false
  end
  redis.call('DEL', bidOf(first))
  local record, stripe, least, owner = string.match(bid, '^(%S*) (%S*) (%S*) (.*)$')
  local count = 1
  if stripe ~= '' then
    count = redis.call('HINCRBY', record, stripe, 1)
    if count < tonumber(least) then
      redis.call('DEL', record)
      return false
    end
  end
  redis.call('ZREM', line, first)
  redis.call('SET', KEYS[1], owner, 'PX', claim)
  tell('yours', first, string.format('%.0f ', count) .. owner)
  return true
end

local kept = reserved(holder)
local mine = ticket and kept == ticket
if stays then
  join(ticket, stays)
  redis.call('DEL', bidOf(ticket))
elseif ticket then
  local waited = redis.call('ZREM', line, ticket) == 1
  if waited then
    redis.call('DEL', bidOf(ticket))
  end
  if (waited or mine) and redis.call('PTTL', aliveOf(ticket)) <= claim then
    -- It was challenged, and that it leaves shows that its client lives. Until the
    -- next of the client's waiters looks:
    redis.call('PEXPIRE', aliveOf(ticket), 5000)
  end
end
if not holder or holder == ARGV[1] or mine and not stays then
  -- A bid is for what a holder releases. What an attempt gives back that too few
  -- granted would pass from bid to bid, and no renewal could take it back.
  if holder == ARGV[1] and not stays and not found and execute(redis.call('ZRANGE', line, 0, 0)[1]) then
    return 3
  end
  local first = head()
  if first then
    reserve(first, ticket, found)
  elseif holder then
    redis.call('DEL', KEYS[1])
  end
  if first and first == ticket then
    return 2
  end
  return holder ~= ARGV[1] and 0 or first and 3 or 1
end
return mine and 2 or 0
