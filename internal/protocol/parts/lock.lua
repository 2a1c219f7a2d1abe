-- lock: the lock that the other parts are about. It is the one of KEYS[1] until at turns to another.
local key, line, readers -- its key, its wait queue, its readers

local function at(lock)
  key, line, readers = lock, 'redlock::line:' .. lock, 'redlock::readers:' .. lock
end
at(KEYS[1])
