-- ask: asks the holder of a lock to let it go, if it wants to be told. It changes nothing else.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  says who was asked, until the lock's key ends: a holder that the message does not reach
--          learns by its next renewal, and so do readers
--
-- Returns 1 where somebody holds the lock that may want to be told, else 0.
--@value
--@holder
local value = valueOf(KEYS[1])
if not tellHolder(value) and value ~= 'redlock::shared' then
  return 0
end
redis.call('SET', KEYS[2], value, 'PX', math.max(redis.call('PTTL', KEYS[1]), 1))
return 1
