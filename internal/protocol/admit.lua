-- admit: lets this server vote, with the counters that the client has collected.
--
-- KEYS[1]  the record, under the name of the quarantine
-- KEYS[2]  the guard of this run: exists while the server must not vote
-- KEYS[3]  the quarantine of this run
-- KEYS[4]  the name of the newest record at this server
-- KEYS[5]  the record before this one, which is merged into the counters
-- KEYS[6]  the quarantine of that record's run
-- KEYS[7]  the format
-- KEYS[8]  the server's list of masters
-- KEYS[9]  the seal
-- ARGV[1]  the name of the quarantine after whose end the client collected them
-- ARGV[2]  N, the number of nodes
-- ARGV[3]  the longest ttl on record, in milliseconds
-- ARGV[4]  the first quarantines of the servers that lost their memory together with this
--          one, with spaces between; '' if the counters come from a quorum of other servers
-- ARGV[5]  the list of masters: its name
-- ARGV[6]  the masters, with spaces between
-- ARGV[7]  which of them the server is
-- ARGV[8]  the seal of the beginning of the list, or the client's own
-- ARGV[9]… the counters, from stripe 0 on
--
-- Returns 1 when there is a record now. Returns 0, and changes nothing, in these cases: the quarantine is another one,
-- not over, or used; the server remembers another list; it remembers none, and does not have this seal. The record after a
-- used quarantine is gone: the counters of this client may lack leases that the server forgot with it.
if redis.call('HEXISTS', KEYS[1], 'nodes') == 1 then
  return 1
end
if redis.call('EXISTS', KEYS[2]) == 1 or redis.call('HGET', KEYS[3], 'name') ~= ARGV[1] then
  return 0
end
if redis.call('HGET', KEYS[3], 'used') then
  return 0
end
local list = redis.call('HGET', KEYS[8], 'id')
if list and list ~= ARGV[5] or not list and redis.call('GET', KEYS[9]) ~= ARGV[8] then
  return 0
end
-- A value of more than 64 bytes makes the server keep the hash as a table: in the
-- compact form it searches a counter from the beginning, at every vote.
local about = 'what this server may vote by, and its counters of fencing tokens, by stripe'
local record = {'about', about, 'format', '2', 'nodes', ARGV[2], 'ttl', ARGV[3]}
if ARGV[4] ~= '' then
  record[#record + 1] = 'together'
  record[#record + 1] = ARGV[4]
  record[#record + 1] = 'seal'
  record[#record + 1] = ARGV[8]
end
for i = 9, #ARGV do
  record[#record + 1] = i - 9
  record[#record + 1] = ARGV[i]
end
redis.call('HSET', KEYS[3], 'used', '1')
redis.call('HSET', KEYS[1], unpack(record))
redis.call('SET', KEYS[4], KEYS[1])
redis.call('SET', KEYS[7], '2')
redis.call('HSET', KEYS[8], 'id', ARGV[5], 'masters', ARGV[6], 'self', ARGV[7])
redis.call('DEL', KEYS[9])
redis.call('PERSIST', KEYS[3])
if KEYS[5] ~= KEYS[1] then
  redis.call('DEL', KEYS[5])
end
if KEYS[6] ~= KEYS[3] then
  redis.call('DEL', KEYS[6])
end
return 1
