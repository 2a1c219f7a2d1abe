-- seize: takes the lock at this node from the holders that the caller found, and counts
-- that as a grant. It leaves another holder's key alone: the node may execute seize
-- when the caller has long given up, and a later lease must survive that.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- KEYS[3]  the lock's wait queue
-- ARGV[1]  the owner that has the lock from now on
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counter of the lock's stripe
-- ARGV[4]  the least count that shows the record to be whole
-- ARGV[5]  until when readers may be replaced, in milliseconds of this server's clock: their
--          value of the key is always the same, and does not tell later readers from those
--          that the caller found; '0' if the caller found none
-- ARGV[6]… other values of the lock's key that may be replaced, beside reservations
--
-- Returns {the count; the owner or reservation that was replaced, or an empty value; its remaining
-- milliseconds}; -1 when the counter was missing: this server has lost its memory and must not vote,
-- so the key and the record are deleted; {holder, its remaining milliseconds} where another holder
-- has the key.
--@value
--@lock
--@queue
--@foreign
local holder = valueOf(KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local kept = reserved(holder)
local mayReplace = not holder or kept
if holder == 'redlock::shared' and ARGV[5] ~= '0' then
  local clock = redis.call('TIME')
  mayReplace = clock[1] * 1000 + math.floor(clock[2] / 1000) <= tonumber(ARGV[5])
end
for i = 6, #ARGV do
  mayReplace = mayReplace or ARGV[i] == holder
end
if not mayReplace then
  return {holder, left}
end
if kept and not isForeign(queue) then
  putBack(kept)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
local count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if count >= tonumber(ARGV[4]) then
  return {count, holder or '', left}
end
redis.call('DEL', KEYS[1], KEYS[2])
return -1
