-- probe: reports whether this server may vote, and puts it in quarantine if it may not yet.
--
-- KEYS[1]  the quarantine of this run: a hash, whose name is that of the record after it
-- KEYS[2]  the guard of this run: exists while the server must not vote
-- KEYS[3]  the format of these keys, from the first record on
-- KEYS[4]  the server's list of masters
-- KEYS[5]  the record that the client counted in before, and found missing; or none
-- ARGV[1]  the prefix of this run's records, before the name
-- ARGV[2]  N, the number of nodes
-- ARGV[3]  the longest ttl that the client uses, in milliseconds; 0 if it only reads
-- ARGV[4]  the guard, in milliseconds: a shorter quarantine begins anew
-- ARGV[5]  a name for a new quarantine, which no other has
-- ARGV[6]  the guard of the first quarantine of this run
--
-- Returns one of
--   {'whole', the server's time, list, masters, self, the record's key, N, longest ttl}: there is a record. Its longest
--     ttl is raised to the client's if N agrees, and its quarantine is marked as used.
--   {'barred', the server's time, list, masters, self, the quarantine's name, its remaining milliseconds, its guard, the
--     name of the first quarantine since the loss}: in quarantine, or at its end. Times are in milliseconds.
--   The list of masters is that in which the server stands or, without a record, stood last; '' if there is none. self
--   says which of them it is.
--   {'format', number}: a client of another format was here.
--
-- FLUSHALL removes both the quarantine and the guard. So the next probe begins a new quarantine under a new name, and no
-- client finds a record under the old one. If the record alone is gone, the quarantine is still there, and its mark "used" shows
-- that a client admitted the server after this quarantine: a new one begins.
if KEYS[5] and redis.call('HEXISTS', KEYS[5], 'nodes') == 0 then
  redis.call('DEL', KEYS[5]) -- it has counts of attempts, and no record
end
local format = redis.call('GET', KEYS[3])
if format and format ~= '2' then
  return {'format', format}
end
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local function members(field)
  return redis.call('HGET', KEYS[4], field) or ''
end
local function reply(word, ...)
  local list = members('id')
  return {word, now, list == '' and members('former') or list, members('masters'), members('self'), ...}
end
local name = redis.call('HGET', KEYS[1], 'name')
local record = ARGV[1] .. (name or '')
local n = name and redis.call('HGET', record, 'nodes')
local used = redis.call('HGET', KEYS[1], 'used')
if n then
  if not used then
    redis.call('HSET', KEYS[1], 'used', '1') -- an older client admitted the server, and did not mark it
  end
  local longest = tonumber(redis.call('HGET', record, 'ttl'))
  if n == ARGV[2] and longest < tonumber(ARGV[3]) then
    longest = tonumber(ARGV[3])
    redis.call('HSET', record, 'ttl', ARGV[3])
  end
  return reply('whole', record, n, longest)
end
local guard = redis.call('HGET', KEYS[1], 'guard') or ARGV[6]
local first = name and not used and (redis.call('HGET', KEYS[1], 'first') or name)
local longer = tonumber(guard) < tonumber(ARGV[4])
if not name or used or longer then
  -- A longer guard begins anew: the one under way was too short. A shorter one changes nothing: its client may
  -- not know the longest ttl.
  name, guard = ARGV[5], longer and ARGV[4] or guard
  first = first or name -- until a client admits the server, it is the same loss
  redis.call('DEL', KEYS[1]) -- with its mark
  redis.call('HSET', KEYS[1], 'name', name, 'guard', guard, 'first', first)
  redis.call('SET', KEYS[2], name, 'PX', guard)
end
guard = tonumber(guard)
redis.call('PEXPIRE', KEYS[1], guard + 86400000) -- garbage, if the run ends here
local left = redis.call('PTTL', KEYS[2])
if left == -1 or left > guard then -- another program took its end away, or the server's clock was set back
  redis.call('PEXPIRE', KEYS[2], guard)
  left = guard + 1 -- the first probe read guard, and a client takes equal readings for a clock that stands still
end
if left == 0 then
  left = 1 -- less than a millisecond, but not over
end
return reply('barred', name, math.max(left, 0), guard, first)
