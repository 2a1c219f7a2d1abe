-- lock: the lock that the other parts are about. It is the one of KEYS[1] until at turns to another.
local key, queue, readers -- its key, its wait queue, its readers

local function at(lock)
  key, queue, readers = lock, 'redlock::queue:' .. lock, 'redlock::readers:' .. lock
end
at(KEYS[1])
