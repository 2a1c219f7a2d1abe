-- get: returns the value that set.lua sets, and registers the token of the read.
--
-- KEYS[1]  the hash of set.lua; where it is missing it is created, with the
--          field ARGV[2] alone
-- ARGV[1]  the token: positive, below 2^53, where Lua's numbers are exact
-- ARGV[2]  the field that keeps the token: "read" for a shared lease, or "fence"
--          for an exclusive one, which set.lua must accept later
--
-- Returns the value, nil if there is none; or {the greatest token that refuses
-- the read, 1 if a reader came with that token, else 0}. A token that is not a
-- number, or a key that is no hash, fails the script: nothing is changed.
local token = tonumber(ARGV[1])
local fence = tonumber(redis.call('HGET', KEYS[1], 'fence') or 0)
local read = tonumber(redis.call('HGET', KEYS[1], 'read') or 0)
if ARGV[2] == 'fence' and read >= token and read >= fence then
  return {read, 1}
end
if fence > token then
  return {fence, 0}
end
if read < token then
  redis.call('HSET', KEYS[1], ARGV[2], ARGV[1])
end
return redis.call('HGET', KEYS[1], 'value')
