-- giveback: drops the keys of the slots that are this attempt's, and wakes the first waiter if
-- enough are free for it now. A waiter that releases leaves the queue, or stays in it.
--
-- KEYS[1]  the semaphore's wait queue; a key of another type, another program's, counts as no queue
-- ARGV[1]  the owner of the attempt or lease to undo
-- ARGV[2]  the key of a slot, but for its number
-- ARGV[3]  how many slots there are
-- ARGV[4]  the slots that the lease has, with commas between; if one of them is not this owner's,
--          or '' is given, all are looked at
-- ARGV[5]  the waiter's ticket, also of a waiter that got the lease; missing or empty if the
--          caller was not queued
-- ARGV[6]  the label of the ticket's client, if the waiter stays in the queue; missing if it leaves
--
-- Returns 1 when all slots of the lease were this attempt's, or any if none were named, and nobody waits; 3 when they were, and it
-- is a waiter's turn; 4 when they were, and those that wait must go on waiting; 2 when nothing was, or
-- the attempt is undone, and it is this ticket's turn; 0 when the node has nothing, or not all, of the attempt.
--@value
local ticket, stays = ARGV[5] or '', ARGV[6]

-- Drops the slot's key if it is this attempt's.
local function drop(slot)
  local mine = redis.pcall('GETRANGE', ARGV[2] .. slot, '0', '511') == ARGV[1] -- another type is not
  if mine then
    redis.call('DEL', ARGV[2] .. slot)
  end
  return mine
end

local all, dropped = ARGV[4] ~= '', 0
for slot in string.gmatch(ARGV[4], '%d+') do
  if drop(slot) then
    dropped = dropped + 1
  else
    all = false
  end
end
if not all then
  for slot = 0, ARGV[3] - 1 do
    dropped = dropped + (drop(slot) and 1 or 0)
  end
end
local any = dropped > 0

local mine = all or ARGV[4] == '' and any
if redis.call('EXISTS', KEYS[1]) == 0 and not stays then
  return mine and 1 or 0
end
--@foreign
if isForeign(KEYS[1]) then
  return mine and 1 or 0
end
--@slots
--@queue
--@waiting
--@join
--@serve
base, size = ARGV[2], tonumber(ARGV[3])
if any then
  redis.call('DEL', fullKey())
end
local left = false
local split = ticket ~= '' and splitFor()
if stays then
  join(ticket, stays)
  if any and (not split or ticket <= split) then -- nobody passes it for a second
    redis.call('SET', splitKey(), ticket, 'PX', 1000)
  end
elseif ticket ~= '' then
  if split == ticket then
    redis.call('DEL', splitKey())
  end
  left = leave(ticket)
end
if not (any or left or stays) then
  return 0
end
local first, turn = serve(ticket, any and dropped)
if turn and first == ticket then
  return 2
end
if left and not turn then
  follow(ticket)
end
return not mine and 0 or turn and 3 or first and 4 or 1
