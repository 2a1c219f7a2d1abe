-- seize: takes the lock at this node, whoever has it, and counts that as a grant.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the owner that has it from now on
-- ARGV[2]  time to live, in milliseconds
-- ARGV[3]  the counter of the lock's stripe; '' for no fencing token, and no record
-- ARGV[4]  the least count that shows the record to be whole
--
-- Returns {the count, or 0 without one; the owner or reservation that had it, or an
-- empty value; its remaining milliseconds}; -1 when the counter was missing: this
-- server has lost its memory and must not vote.
--@line
local holder = redis.call('GET', KEYS[1])
local left = redis.call('PTTL', KEYS[1])
local kept = reserved(holder)
if kept then
  putBack(kept)
end
redis.call('SET', KEYS[1], ARGV[1], 'PX', ARGV[2])
if ARGV[3] == '' then
  return {0, holder or '', left}
end
local count = redis.call('HINCRBY', KEYS[2], ARGV[3], 1)
if count >= tonumber(ARGV[4]) then
  return {count, holder or '', left}
end
redis.call('DEL', KEYS[1], KEYS[2])
return -1
