-- record: reads the record by which this server votes.
--
-- KEYS[1]  the bar of this run
-- ARGV[1]  the prefix of this run's records, before the name
--
-- Returns the record's fields and values; an empty list if there is no record.
local name = redis.call('HGET', KEYS[1], 'name')
return name and redis.call('HGETALL', ARGV[1] .. name) or {}
