-- record: reads the record by which this server votes, or how it waits for one.
--
-- KEYS[1]  the quarantine of this run
-- KEYS[2]  the guard of this run
-- ARGV[1]  the prefix of this run's records, before the name
--
-- Returns the record's fields and values; where there is no record, {'first', the name of
-- the first quarantine since the loss, 'left', milliseconds of the quarantine, 'guard', its guard}, or an empty
-- list if the server has lost its memory and no client has looked since.
local name = redis.call('HGET', KEYS[1], 'name')
if not name then
  return {}
end
local record = redis.call('HGETALL', ARGV[1] .. name)
if #record > 0 or redis.call('HGET', KEYS[1], 'used') then
  return record
end
local left = redis.call('PTTL', KEYS[2])
if left == 0 then
  left = 1 -- less than a millisecond, but not over
end
return {'first', redis.call('HGET', KEYS[1], 'first') or name, 'left', tostring(math.max(left, 0)),
  'guard', redis.call('HGET', KEYS[1], 'guard')}
