-- install: gives this server the list of masters that was chosen to follow its own.
--
-- KEYS[1]  the server's list of masters
-- KEYS[2]  the quarantine of this run
-- KEYS[3]  the name of the newest record at this server
-- KEYS[4]  exists while a lease that was granted under an earlier list may be valid
-- ARGV[1]  the list in which the server stands
-- ARGV[2]  the next list's name, with its number behind a dot
-- ARGV[3]  its masters, with spaces between
-- ARGV[4]  N, how many they are
-- ARGV[5]  the prefix of this run's records, before the name
--
-- Returns 1 when the server has the list. Returns 0, and changes nothing, if it stands in another list than the client
-- knows, or has no record.
--
-- The record gets another name: what names the old one counts in a record that is not there, as after a loss of memory. A
-- server that is no master of the list loses its record. It remembers the list under 'former', and stands in none.
local name = redis.call('HGET', KEYS[2], 'name') or ''
local before = ARGV[5] .. name
if redis.call('HGET', KEYS[1], 'id') ~= ARGV[1] or redis.call('HEXISTS', before, 'nodes') == 0 then
  return 0
end
local self = redis.call('HGET', KEYS[1], 'self')
local stays = string.find(' ' .. ARGV[3] .. ' ', ' ' .. self .. ' ', 1, true)
if stays then
  local record = redis.call('HGETALL', before)
  name = string.match(name, '^[^.]*') .. '.' .. string.match(ARGV[2], '%.(%d+)')
  redis.call('HSET', ARGV[5] .. name, unpack(record))
  redis.call('HSET', ARGV[5] .. name, 'nodes', ARGV[4])
  redis.call('HSET', KEYS[2], 'name', name)
  redis.call('SET', KEYS[3], ARGV[5] .. name)
  redis.call('SET', KEYS[4], ARGV[2], 'PX', math.max(redis.call('HGET', before, 'ttl'), 1))
end
redis.call('DEL', before)
redis.call('HSET', KEYS[1], 'id', stays and ARGV[2] or '', 'former', stays and '' or ARGV[2], 'masters', ARGV[3],
  'promised', '', 'accepted', '', 'proposal', '')
return 1
