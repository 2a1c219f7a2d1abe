-- raiseall: raises the counters of several stripes to a token, for a lease whose keys are all here.
--
-- KEYS[1]…[n]  the locks' keys
-- KEYS[n+1]    the record of this run of the server
-- ARGV         as raise's; the counters of the stripes have commas between
--
-- Returns as raise does; where it returns 0, nothing is changed.
for i = 1, #KEYS - 1 do
  if redis.call('GETRANGE', KEYS[i], '0', '511') ~= ARGV[1] then
    return 0
  end
end
local record, behind = KEYS[#KEYS], {}
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
