-- observe: shows who holds locks. It changes nothing.
--
-- KEYS[1]  the record of this run of the server
-- KEYS[2…] the locks' keys
--
-- ARGV[n]  the counter of the n-th lock's stripe
--
-- Returns for each lock, one after the other: its key's value, the key's remaining milliseconds, and the count; an
-- empty value or count if there is none, or if another program's key is of another type.
local found = {}
for i, stripe in ipairs(ARGV) do
  local lock = KEYS[i + 1]
  local holder = redis.pcall('GETRANGE', lock, '0', '511')
  found[#found + 1] = type(holder) == 'string' and holder or ''
  found[#found + 1] = redis.call('PTTL', lock)
  found[#found + 1] = redis.call('HGET', KEYS[1], stripe) or ''
end
return found
