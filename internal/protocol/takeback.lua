-- takeback: gives the key back to a lease's owner after a transfer that failed. The lease goes on, and
-- the key ends as before.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the transfer value, which the transfer gave the key
-- ARGV[2]  the lease's owner
--
-- Returns 1 when the key had the transfer value, else 0.
if redis.call('GETRANGE', KEYS[1], '0', '511') ~= ARGV[1] then
  return 0
end
local left = redis.call('PTTL', KEYS[1])
if left > 0 then
  redis.call('PEXPIRE', KEYS[1], left) -- as in transfer.lua
end
redis.call('SET', KEYS[1], ARGV[2], 'KEEPTTL')
return 1
