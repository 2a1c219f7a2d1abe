-- foreign: keys of other programs; a part of the scripts that drop what an attempt has.

-- Reports whether a wait queue's key is another program's, of another type. Nobody waits there, and
-- it must not keep a script from dropping a lock's key.
local function isForeign(waiters)
  local found = redis.pcall('ZRANGE', waiters, 0, 0)
  return found.err and string.find(found.err, 'WRONGTYPE', 1, true) ~= nil
end
