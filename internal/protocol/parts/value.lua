-- value: reads the value of a lock's key.

-- Returns the value of a lock's key, false without a key. Of a longer value, which only another program
-- sets, it returns the first 512 bytes: all values of the library are shorter. With lenient, a key of another
-- type does not end the script: then it returns the server's error. (Lua takes longer for numbers than for texts.)
local function valueOf(lock, lenient)
  local value = lenient and redis.pcall('GETRANGE', lock, '0', '511') or redis.call('GETRANGE', lock, '0', '511')
  return (value ~= '' or redis.call('EXISTS', lock) == 1) and value
end
