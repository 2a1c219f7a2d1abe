-- inspect: returns the state of a lock at this node; it changes nothing.
--
-- KEYS[1]  the lock's key
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the counter of the lock's stripe
--
-- Returns {the key's value, its remaining milliseconds, the count, the first hundred
-- tickets in the queue, each followed by its client's label}; an empty value, count or
-- label where there is none.
local line = {}
for _, ticket in ipairs(redis.call('ZRANGE', 'redlock::line:' .. KEYS[1], 0, 99)) do
  local client = string.match(ticket, '^%d+%-(%w+)') or ''
  line[#line + 1] = ticket
  line[#line + 1] = redis.call('GET', 'redlock::alive:' .. client .. ':' .. KEYS[1]) or ''
end
return {
  redis.call('GET', KEYS[1]) or '',
  redis.call('PTTL', KEYS[1]),
  redis.call('HGET', KEYS[2], ARGV[1]) or '',
  line,
}
