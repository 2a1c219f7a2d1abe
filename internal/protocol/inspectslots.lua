-- inspectslots: returns the slots of a semaphore that have a key at this node, and the tickets in
-- the semaphore's wait queue; it changes nothing. Nothing at the node says how many slots there
-- are: it looks at as many as a semaphore may have.
--
-- KEYS[1]  the semaphore's wait queue
-- KEYS[2]  the record of this run of the server
-- ARGV[1]  the key of a slot, but for its number
-- ARGV[2]  how many slots a semaphore may have
-- ARGV[3]  the counter of the stripe of slot 0, from which those of the others count on
--
-- Returns {the first hundred tickets in the queue, each followed by its client's label; the
-- slots that have a key, each followed by the key's value, its remaining milliseconds and the
-- slot's count}; an empty label or count where there is none. The value of a key of another type is
-- "(a key of another type)".
--@value
local line = {}
for _, ticket in ipairs(redis.call('ZRANGE', KEYS[1], 0, 99)) do
  local client = string.match(ticket, '^%d+%-(%w+)') or ''
  line[#line + 1] = ticket
  local label = redis.pcall('GET', 'redlock::alive:' .. client)
  line[#line + 1] = type(label) == 'string' and string.match(label, '^[!?]+(.*)$') or '' -- without its marks; it may be another program's key
end
local keys = {}
for slot = 0, ARGV[2] - 1 do
  keys[#keys + 1] = ARGV[1] .. slot
end
local slots, left = {}, redis.call('EXISTS', unpack(keys)) -- mostly there are none: then this is all
for slot = 0, ARGV[2] - 1 do
  if left == 0 then
    break
  end
  local value = valueOf(keys[slot + 1], true)
  if type(value) == 'table' then
    if not string.find(value.err, 'WRONGTYPE', 1, true) then
      return value
    end
    value = '(a key of another type)'
  end
  if value then
    left = left - 1
    slots[#slots + 1] = tostring(slot)
    slots[#slots + 1] = value
    slots[#slots + 1] = tostring(redis.call('PTTL', keys[slot + 1]))
    slots[#slots + 1] = redis.call('HGET', KEYS[2], tostring((ARGV[3] + slot) % 256)) or ''
  end
end
return {line, slots}
