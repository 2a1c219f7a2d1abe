-- release: drops the lock's key if it is this attempt's; a newer one stays. What
-- becomes free is reserved for the first in line. Who waits leaves the line, or
-- stays in it.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the owner of the attempt or lease to undo
-- ARGV[2]  the ticket of who waits, or waited for the lease; missing if it did not;
--          empty for who did not and found the lock free though others wait
-- ARGV[3]  the label of the ticket's client, if it is to stay; missing if it leaves
--
-- Returns 1 when the key was this attempt's and is gone, 3 when it is reserved for
-- somebody else now, 2 when it is for this ticket, 0 when there was nothing of it.
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
if stays then
  join(ticket, stays)
elseif ticket then
  local rank = redis.call('ZRANK', line, ticket)
  if rank then
    redis.call('ZREM', line, ticket)
    if rank < 2 then
      tellNear()
    end
  end
end
local kept = reserved(holder)
local mine = ticket and kept == ticket
if not holder or holder == ARGV[1] or mine and not stays then
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
