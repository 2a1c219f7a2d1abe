-- level: raises the counters of this server's record to those of other nodes.
--
-- KEYS[1]  the record
-- ARGV[1]… the counters, from stripe 0 on
--
-- Returns 1, or 0 where there is no record: then nothing is changed.
if redis.call('HEXISTS', KEYS[1], 'nodes') == 0 then
  return 0
end
for i = 1, #ARGV do
  if tonumber(redis.call('HGET', KEYS[1], i - 1)) < tonumber(ARGV[i]) then
    redis.call('HSET', KEYS[1], i - 1, ARGV[i])
  end
end
return 1
