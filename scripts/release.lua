-- release: drops the lock's key if it is this attempt's; a newer one stays.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the owner of the attempt or lease to undo
--
-- Returns 1 when the key was this attempt's and is gone, 0 when there was none,
-- else {holder, its remaining milliseconds}: whoever was refused learns so how
-- long the holder has left.
local holder = redis.call('GET', KEYS[1])
if holder == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
if not holder then
  return 0
end
return {holder, redis.call('PTTL', KEYS[1])}
