-- holder: tells the holder of a lock that somebody else wants it; a part of the scripts that make waiters
-- wait.

-- Sends a message to the client of a holder that wants to be told: behind the 26 characters of the
-- id in its value of the lock's key stand ! and its client. Without the right to publish it sends
-- nothing, and the holder learns by its next renewal. Returns that client; false or nil for
-- every other value of the key.
local function tellHolder(value)
  local holder = value and string.sub(value, 27, 27) == '!' and string.match(value, '^%w+!(%w+)')
  if holder then
    redis.pcall('PUBLISH', 'redlock::wake:' .. holder, 'wanted ' .. string.sub(value, 1, 26))
  end
  return holder
end
