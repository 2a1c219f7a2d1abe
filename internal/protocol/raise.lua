-- raise: raises the counters of a lease's locks to its token, where the lease stands here.
--
-- KEYS[1]…[n]  the locks' keys
-- KEYS[n+1]    the record of this run of the server
-- KEYS[n+2]    of a share: the lock's readers
-- ARGV[1]      the lease's owner
-- ARGV[2]      the counters of the locks' stripes, with commas between
-- ARGV[3]      the token
-- ARGV[4]      the least count that shows the record to be whole
-- ARGV[5]      1 of a share of the one lock; else missing
--
-- Returns 1 when all counters are at the token or above, 0 when the lease or the record is
-- gone: then nothing is changed.
local n = #KEYS - (ARGV[5] and 2 or 1)
for i = 1, n do
  if redis.call('GETRANGE', KEYS[i], '0', '511') ~= (ARGV[5] and 'redlock::shared' or ARGV[1]) then
    return 0
  end
end
if ARGV[5] then
  local clock = redis.call('TIME')
  if (tonumber(redis.call('ZSCORE', KEYS[n + 2], ARGV[1])) or 0) <= clock[1] * 1000 + math.floor(clock[2] / 1000) then
    return 0
  end
end
local record, behind = KEYS[n + 1], {}
for stripe in string.gmatch(ARGV[2], '%d+') do
  local count = tonumber(redis.call('HGET', record, stripe))
  if not count or count < tonumber(ARGV[4]) then
    return 0 -- what was counted where a record is missing must not become one
  end
  if count < tonumber(ARGV[3]) then
    behind[#behind + 1] = stripe
  end
end
for _, stripe in ipairs(behind) do
  redis.call('HSET', record, stripe, ARGV[3])
end
return 1
