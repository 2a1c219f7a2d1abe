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
-- KEYS[10] exists while a lease that was granted under an earlier list may be valid
-- ARGV[1]  the name of the quarantine after whose end the client collected them
-- ARGV[2]  N, the number of nodes
-- ARGV[3]  the longest ttl on record, in milliseconds
-- ARGV[4]  the first quarantines of the servers that lost their memory together with this
--          one, with spaces between; '' if the counters come from a quorum of other servers
-- ARGV[5]  the list of masters: its name
-- ARGV[6]  the masters, with spaces between
-- ARGV[7]  which of them the server is
-- ARGV[8]  the seal of the beginning of the list, or the client's own
-- ARGV[9]  the list that the client found the server to remember; '' if it is none
-- ARGV[10] the latest ballot that other servers of the list have promised, or ''
-- ARGV[11] the latest that they have accepted, or ''
-- ARGV[12] the proposal that they accepted with it, or ''
-- ARGV[13]… the counters, from stripe 0 on
--
-- Returns 1 when there is a record now. Returns 0, and changes nothing, in these cases: the quarantine is another one,
-- not over, or used; the server remembers another list than
-- the client found; it remembers none, and does not have this seal. The record after a
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
local function remembered(field)
  return redis.call('HGET', KEYS[8], field) or ''
end
local list = remembered('id')
if list == '' then
  list = remembered('former')
end
if list ~= ARGV[9] or list == '' and redis.call('GET', KEYS[9]) ~= ARGV[8] then
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
for i = 13, #ARGV do
  record[#record + 1] = i - 13
  record[#record + 1] = ARGV[i]
end
redis.call('HSET', KEYS[3], 'used', '1')
redis.call('HSET', KEYS[1], unpack(record))
redis.call('SET', KEYS[4], KEYS[1])
redis.call('SET', KEYS[7], '2')
local promised, accepted, proposal = ARGV[10], ARGV[11], ARGV[12]
if list == ARGV[5] then -- what it remembers of the choice of the next list counts too
  promised = promised < remembered('promised') and remembered('promised') or promised
  if accepted < remembered('accepted') then
    accepted, proposal = remembered('accepted'), remembered('proposal')
  end
end
redis.call('HSET', KEYS[8], 'id', ARGV[5], 'masters', ARGV[6], 'self', ARGV[7], 'former', '', 'promised', promised,
  'accepted', accepted, 'proposal', proposal)
redis.call('SET', KEYS[10], ARGV[5], 'PX', math.max(ARGV[3], 1))
redis.call('DEL', KEYS[9])
redis.call('PERSIST', KEYS[3])
if KEYS[5] ~= KEYS[1] then
  redis.call('DEL', KEYS[5])
end
if KEYS[6] ~= KEYS[3] then
  redis.call('DEL', KEYS[6])
end
return 1
