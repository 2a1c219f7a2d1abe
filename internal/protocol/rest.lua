-- rest: releases a lease whose minimum hold may not be over. While some of it is left, the lock
-- rests: its key is nobody's lease, and refuses every attempt and renewal, until it ends. When
-- nothing is left, or the key is another's, rest does what release does.
--
-- KEYS     as release's
-- ARGV[1]  how many milliseconds of the minimum hold are left, or '0'
-- ARGV[2]  the lease's owner
-- ARGV[3]  the ticket of the waiter that got the lease; missing if the caller was not queued
--
-- Returns 1 when the key was the lease's, and the lock rests now; 4 when others wait for it; else
-- as release does. A resting key counts as the lease's: the answer to a release before this one
-- was lost.
--@value
--@lock
--@queue
--@reserve
--@join
--@foreign
local ms = tonumber(table.remove(ARGV, 1)) -- what is left is ARGV of release
local resting = 'redlock::resting:' .. ARGV[1]
local found = valueOf(key)
if found == resting then
  ARGV[1] = resting
end
if ms > 0 and found == ARGV[1] and isForeign(queue) then
  redis.call('SET', key, resting, 'PX', ms)
  return 1
end
if ms > 0 and found == ARGV[1] then
  local ticket = ARGV[2]
  if ticket then
    leave(ticket)
  end
  local first = head()
  if found ~= resting or redis.call('PTTL', key) > ms then
    redis.call('SET', key, resting, 'PX', ms)
    if first then
      tell('look', first) -- it learns when the key ends
    end
  end
  return first and 4 or 1
end
--@release
