-- release: drops the lock's key if it is this attempt's; a newer one stays.
--
-- KEYS[1]  the lock's key
-- ARGV[1]  the owner of the attempt or lease to undo
--
-- Returns 1 when the key was this attempt's and is gone, else 0.
if redis.call('GET', KEYS[1]) == ARGV[1] then
  return redis.call('DEL', KEYS[1])
end
return 0
