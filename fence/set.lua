-- set: sets a value if no greater token set it before, and no greater or equal
-- token has read it.
--
-- KEYS[1]  a hash with the fields "value", "fence" (the greatest token that
--          wrote) and "read" (the greatest token that read, missing before)
-- ARGV[1]  the token: positive, below 2^53, where Lua's numbers are exact
-- ARGV[2]  the value
--
-- Returns {0, 0} when the value was set, else {the greatest token that refuses
-- it, 1 if a reader came with that token, else 0}. A token that is not a number,
-- or a key that is no hash, fails the script: nothing is changed.
local token = tonumber(ARGV[1])
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
local read = tonumber(redis.call('HGET', KEYS[1], 'read') or 0)
if read >= token and read >= fence then
  return {read, 1}
end
if fence > token then
  return {fence, 0}
end
redis.call('HSET', KEYS[1], 'fence', ARGV[1], 'value', ARGV[2])
return {0, 0}
