-- record: reads the record by which this server votes.
--
-- KEYS[1]  the bar of this run
-- ARGV[1]  the records of this run: what comes before the name
--
-- Returns the record's fields and values; nothing where there is none.
local name = redis.call('HGET', KEYS[1], 'name')
return name and redis.call('HGETALL', ARGV[1] .. name) or {}
