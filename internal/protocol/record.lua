-- record: reads the record by which this server votes, or how it waits for one.
--
-- KEYS[1]  the quarantine of this run
-- KEYS[2]  the guard of this run
-- KEYS[3]  the server's list of masters
-- ARGV[1]  the prefix of this run's records, before the name
--
-- Returns fields and values: those of the list of masters in which the server stands, or stood last; and those of the
-- record. Where there is no record, and clients have looked since the server lost its memory: 'name' of the quarantine,
-- 'first', the name of the first one since the loss, 'left', milliseconds of the quarantine, 'guard', its guard.
local fields = redis.call('HGETALL', KEYS[3])
local function add(...)
  for _, text in ipairs({...}) do
    fields[#fields + 1] = text
  end
end
local name = redis.call('HGET', KEYS[1], 'name')
if name then
  local record = redis.call('HGETALL', ARGV[1] .. name)
  if #record > 0 then
    add(unpack(record))
  elseif not redis.call('HGET', KEYS[1], 'used') then
    local left = redis.call('PTTL', KEYS[2])
    if left == 0 then
      left = 1 -- less than a millisecond, but not over
    end
    add('name', name, 'first', redis.call('HGET', KEYS[1], 'first') or name, 'left', tostring(math.max(left, 0)),
      'guard', redis.call('HGET', KEYS[1], 'guard'))
  end
end
return fields
