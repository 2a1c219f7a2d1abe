-- set: sets a value if no greater token set it before.
--
-- KEYS[1]  a hash with the fields "value" and "fence"
-- ARGV[1]  the token: positive, below 2^53, where Lua's numbers are exact
-- ARGV[2]  the value
--
-- Returns 0 when the value was set, else the greater token. A fence that is not
-- a number, or a key that is no hash, fails the script: nothing is changed.
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
if fence > tonumber(ARGV[1]) then
  return fence
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return 0
