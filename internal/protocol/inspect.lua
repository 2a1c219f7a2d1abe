-- inspect: returns the state of a lock at this node; it changes nothing.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- KEYS[3]  the lock's wait queue
-- KEYS[4]  the lock's readers
-- ARGV[1]  the counter of the lock's stripe
--
-- Returns {the key's value, its remaining milliseconds, the count, the first hundred
-- tickets in the queue, each followed by its client's label, the hundred readers that hold
-- the lock for longest, each followed by its remaining milliseconds, this server's clock in
-- milliseconds as text, since some embedded servers return numbers of 32 bits}; an empty value,
-- count or label where there is none.
local line = {}
--@foreign
for _, ticket in ipairs(isForeign(KEYS[3]) and {} or redis.call('ZRANGE', KEYS[3], 0, 99)) do
  local client = string.match(ticket, '^%d+%-(%w+)') or ''
  line[#line + 1] = ticket
  local label = redis.pcall('GET', 'redlock::alive:' .. client)
  line[#line + 1] = type(label) == 'string' and string.match(label, '^[!?]+(.*)$') or '' -- without its marks; it may be another program's key
end
local holder = redis.call('GETRANGE', KEYS[1], '0', '511')
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)
local shares = {}
if holder == 'redlock::shared' and not isForeign(KEYS[4]) then
  local found = redis.call('ZRANGE', KEYS[4], -100, -1, 'WITHSCORES')
  for i = 1, #found, 2 do
    local left = tonumber(found[i + 1]) - now
    if left > 0 then
      shares[#shares + 1] = found[i]
      shares[#shares + 1] = string.format('%.0f', left)
    end
  end
end
return {holder, redis.call('PTTL', KEYS[1]), redis.call('HGET', KEYS[2], ARGV[1]) or '', line, shares, string.format('%.0f', now)}
