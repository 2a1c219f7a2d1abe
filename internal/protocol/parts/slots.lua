-- slots: the slots of a semaphore; a part of the scripts that grant or release permits. Each slot is a lock
-- of its own, whose key is the semaphore's with # and the slot's number. KEYS[1] is the wait queue that
-- stands in front of all of them; wake-ups name it.
--
-- Needs valueOf.
local key, queue = KEYS[1], KEYS[1]
local base, size -- the keys of the slots but for their numbers; the number of slots

-- Returns the slots that are free, at most so many, along the order that a seed below 2^32 names; from
-- slot 0 on without one. The order is a shuffle by a linear congruential generator, drawn no farther
-- than it is needed: numbers below 2^53, so that all servers draw the same. A slot that has mine
-- counts as free: the same attempt took it, by a command that is executed again. A slot whose key is
-- of another type counts as taken; foreign is the server's error then, and foreigns how many there
-- are, if all slots were looked at. If owners is given, it gets the value of each taken slot's key, by the
-- slot's number.
local foreign, foreigns
local function freeSlots(seed, most, mine, owners)
  local free, moved = {}, {} -- moved has the slots that are not at their own number any more
  foreigns = 0
  for i = 0, size - 1 do
    if #free >= most then
      break
    end
    local slot = i
    if seed then
      seed = (seed * 1664525 + 1013904223) % 4294967296
      local pick = seed * (size - i) / 4294967296
      pick = i + pick - pick % 1
      slot = moved[pick] or pick
      moved[pick] = moved[i] or i
    end
    local value = valueOf(base .. slot, true)
    if not value or value == mine then
      free[#free + 1] = slot
    else
      if type(value) == 'table' then
        foreign, foreigns, value = value, foreigns + 1, ''
      end
      if owners then
        owners[slot] = value
      end
    end
  end
  return free
end
