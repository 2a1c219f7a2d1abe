-- slots: the slots of a semaphore; a part of the scripts that grant or release permits, in place
-- of their @slots. Each slot is a lock of its own, whose key is the semaphore's with # and the
-- slot's number. KEYS[1] is the wait queue that stands in front of all of them; wake-ups name it.
local key, line = KEYS[1], KEYS[1]
local base, size -- the keys of the slots but for their numbers; the number of slots

-- Returns the slots that are free, at most so many, from the slot start on. A slot that has mine
-- counts as free: the same attempt took it, by a command that is executed again. A slot whose key is
-- of another type counts as taken; foreign is the server's error then, and foreigns how many there
-- are, if all slots were looked at.
local foreign, foreigns
local function freeSlots(start, most, mine)
  local free = {}
  foreigns = 0
  for i = 0, size - 1 do
    if #free >= most then
      break
    end
    local slot = (start + i) % size
    local value = valueOf(base .. slot, true)
    if not value or value == mine then
      free[#free + 1] = slot
    elseif type(value) == 'table' then
      foreign, foreigns = value, foreigns + 1
    end
  end
  return free
end

-- Returns how many permits a ticket wants.
local function wanted(ticket)
  return tonumber(string.match(ticket, '%*(%d+)$')) or 1
end
