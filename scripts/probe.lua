-- probe: asks whether this server may vote, and bars it if it may not yet.
--
-- KEYS[1]  the record of this run of the server
-- KEYS[2]  the quarantine of this run: exists while it must not vote
-- KEYS[3]  the bar of this run: names the quarantine, and outlasts it
-- ARGV[1]  N, the number of nodes
-- ARGV[2]  the longest ttl that the client uses, in milliseconds
-- ARGV[3]  the guard, in milliseconds
-- ARGV[4]  a name for a new quarantine, which no other has
--
-- Returns {'whole', N, longest ttl} when there is a record (its longest ttl
-- raised to the client's), else {'barred', the quarantine's name, its remaining
-- milliseconds, its guard}. FLUSHALL removes bar and quarantine alike, so the
-- next probe begins a new one under a new name.
local n = redis.call('HGET', KEYS[1], 'nodes')
if n then
  local longest = tonumber(redis.call('HGET', KEYS[1], 'ttl'))
  if n == ARGV[1] and longest < tonumber(ARGV[2]) then
    longest = tonumber(ARGV[2])
    redis.call('HSET', KEYS[1], 'ttl', ARGV[2])
  end
  return {'whole', n, longest}
end
local name = redis.call('HGET', KEYS[3], 'name')
local guard = tonumber(redis.call('HGET', KEYS[3], 'guard'))
if not name or guard < tonumber(ARGV[3]) then
  -- A longer guard starts over: the one under way was too short.
  name, guard = ARGV[4], tonumber(ARGV[3])
  redis.call('HSET', KEYS[3], 'name', name, 'guard', ARGV[3])
  redis.call('SET', KEYS[2], name, 'PX', ARGV[3])
end
local left = redis.call('PTTL', KEYS[2])
if left == 0 then
  left = 1 -- less than a millisecond, but not over
end
return {'barred', name, math.max(left, 0), guard}
