-- trim: cuts the locks' keys that last longer than any lease relies on them, since this server's clock was set back. It
-- leaves the keys of other programs alone.
--
-- KEYS[1]  the record of this run of the server
-- KEYS[2]  the quarantine of this run
-- KEYS[3]… each lock's key, and behind it the shares of its readers
-- ARGV[1]  a key is cut only if its lease began at most so many days ago, by the clock in its owner
-- ARGV[2]  the longest reservation, in milliseconds
--
-- Returns how many keys it has cut: a reservation to ARGV[2], all others to the longest ttl on record, or to the guard of the
-- last quarantine if that is longer. It cuts shares to the same end. Without a record it cuts none.
--@value
local longest = tonumber(redis.call('HGET', KEYS[1], 'ttl'))
if not longest then
  return 0
end
longest = math.max(longest, tonumber(redis.call('HGET', KEYS[2], 'guard')) or 0) + 1 -- a ttl may have been rounded up
local clock = redis.call('TIME')

-- Reports whether a value is an owner of this library. Another program's value may have the same form. So the clock in it
-- must show 0, for no time, or an instant at which the attempt can have begun: here the clock may have been set back by
-- what the key has left.
local function isOwner(value, left)
  local id, mark = string.match(value, '^([A-Z2-7]+)(.?)')
  if not id or #id ~= 26 or not (mark == '' or mark == '!' or mark == '@') then
    return false
  end
  local seconds = 0
  for i = 20, 26 do
    local byte = string.byte(id, i)
    seconds = seconds * 32 + (byte >= 65 and byte - 65 or byte - 24)
  end
  return seconds == 0 or math.abs(seconds - clock[1]) <= left / 1000 + ARGV[1] * 86400
end

-- Has no share last beyond this instant: one that did would prolong the lock's key again when the next reader comes.
local function cutShares(readers, last)
  local shares = redis.call('ZRANGE', readers, 0, -1, 'WITHSCORES')
  for i = #shares, 2, -2 do
    if tonumber(shares[i]) <= last then
      return
    end
    redis.call('ZADD', readers, last, shares[i - 1])
    redis.call('PEXPIREAT', readers, last)
  end
end

local cut = 0
for i = 3, #KEYS, 2 do
  local left, value = redis.call('PTTL', KEYS[i]), valueOf(KEYS[i], true)
  local most = longest
  if type(value) ~= 'string' then
    most = left
  elseif string.sub(value, 1, 18) == 'redlock::reserved:' then
    most = tonumber(ARGV[2])
  elseif value ~= 'redlock::shared' and string.sub(value, 1, 17) ~= 'redlock::resting:' and not isOwner(value, left) then
    most = left
  end
  if left > most then
    redis.call('PEXPIRE', KEYS[i], most)
    cut = cut + 1
  end
  if value == 'redlock::shared' then
    cutShares(KEYS[i + 1], clock[1] * 1000 + math.floor(clock[2] / 1000) + most)
  end
end
return cut
