-- propose: takes part in the choice of the list of masters that follows this server's.
--
-- KEYS[1]  the server's list of masters
-- KEYS[2]  the record
-- KEYS[3]  exists while a lease that was granted under an earlier list may be valid
-- ARGV[1]  the list in which the server stands
-- ARGV[2]  the ballot: no other proposal has it. Of two ballots the one that is greater as text is the later one
-- ARGV[3]  the proposal: the next list's name and its masters, with spaces between; '' to promise only
--
-- A server promises to accept no proposal of an earlier ballot. It accepts a proposal, or says why it does not.
--
-- Returns one of
--   {'taken', ballot, proposal}: promised or accepted. They are those that the server accepted last, or ''.
--   {'late', ballot}: it has promised a later one.
--   {'settling', milliseconds}: it promises after so long.
--   {'other', list}: it stands in another list, or in none, or the record is gone.
-- In the last three cases nothing is changed.
local function field(name)
  return redis.call('HGET', KEYS[1], name) or ''
end
if field('id') ~= ARGV[1] or redis.call('HEXISTS', KEYS[2], 'nodes') == 0 then
  return {'other', field('id')}
end
if ARGV[2] < field('promised') then
  return {'late', field('promised')}
end
if ARGV[3] ~= '' then
  redis.call('HSET', KEYS[1], 'promised', ARGV[2], 'accepted', ARGV[2], 'proposal', ARGV[3])
elseif redis.call('EXISTS', KEYS[3]) == 1 then
  local left, most = redis.call('PTTL', KEYS[3]), math.max(redis.call('HGET', KEYS[2], 'ttl'), 1)
  if left == -1 or left > most then -- another program took its end away, or the server's clock was set back
    redis.call('PEXPIRE', KEYS[3], most)
    left = most
  end
  return {'settling', tostring(math.max(left, 1))}
else
  redis.call('HSET', KEYS[1], 'promised', ARGV[2])
end
return {'taken', field('accepted'), field('proposal')}
