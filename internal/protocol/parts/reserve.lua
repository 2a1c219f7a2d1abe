-- reserve: reserves a lock that is free for a waiter; a part of the scripts that serve the waiters of a lock.
--
-- A key that becomes free while there are waiters is reserved for the first ticket, for half a
-- second. That gives no rights, only order: it keeps newcomers out. A reservation
-- removes its ticket from the queue, so a waiter that does not come is passed over; a
-- waiter that polls is back with its old ticket.
--
-- A ticket that ends with + wants several locks at once. It stands in the queues of all of
-- them, and is first in turn when it is the first in each. Its waiter is woken when all its locks
-- are reserved for it, by the script that makes the last of them free. Until then those that are free
-- are reserved one by one, while the ticket stays in the queues: a waiter with an earlier ticket takes
-- such a reservation over, as any other.
--
-- Needs at, challenge, claim, dead, doubt, head, isChallenged, key, muster, queue, standing, valueOf, watch.

-- Reports whether the ticket wants several locks.
local function wantsSeveral(ticket)
  return string.sub(ticket, -1) == '+'
end

-- Reports whether the ticket is the first in this lock's queue. Another program's key is no queue, and
-- must not end a script that serves another lock.
local function leads(ticket)
  local first = redis.pcall('ZRANGE', queue, 0, 0)
  return not first.err and (first[1] == ticket and not dead(ticket) or head() == ticket)
end

-- Returns the keys of the locks that a ticket wants, if all are free or reserved for it, but perhaps
-- this one, and the ticket is the first in the queue of each; else nil. The list has the length of
-- each key ahead of it. A user that may not look at the list, or at one of the locks, cannot tell:
-- then the waiter gets the locks when it polls. A script that found once that a ticket cannot have
-- all its locks does not look again: with many locks, that would cost the square of their number.
local refused = {} -- tickets
local function wantedKeys(ticket)
  if refused[ticket] then
    return nil
  end
  local here, keys = key, {}
  local list = redis.pcall('GET', 'redlock::wants:' .. ticket)
  if type(list) ~= 'string' then
    list = ''
  end
  local length, from = string.match(list, '^(%d+):()')
  while from do
    keys[#keys + 1] = string.sub(list, from, from + length - 1)
    length, from = string.match(list, '^(%d+):()', from + length)
  end
  local open = #keys > 0
  for _, other in ipairs(keys) do
    at(other)
    local holder, kept = open and other ~= here and valueOf(other, true), nil
    if type(holder) == 'string' then
      holder, kept = standing(holder, ticket)
    end
    open = open and (not holder or kept == ticket) and leads(ticket)
  end
  at(here)
  refused[ticket] = not open
  return open and keys or nil
end

-- Reserves the free key for a ticket.
local function keepFor(ticket)
  redis.call('ZREM', queue, ticket)
  redis.call('SET', key, 'redlock::reserved:' .. ticket, 'PX', claim)
end

-- Reserves all locks that the first ticket wants, and returns their keys. If it cannot, it reserves this one alone, and
-- returns nil: the ticket stays in the queue, and its waiter renews the reservation when it polls. found is that of reserve.
local function keepAllFor(first, asking, found)
  local keys, here = wantedKeys(first), key
  if not keys then
    if not found then -- else the asking one doubts, when it has joined the queue
      doubt(first, asking)
      watch(first)
    end
    redis.call('SET', key, 'redlock::reserved:' .. first, 'PX', isChallenged(first) and claim or 2000)
    return nil
  end
  for _, other in ipairs(keys) do
    at(other)
    keepFor(first)
  end
  at(here)
  return keys
end

-- Reserves the free key for the first ticket, and challenges its client unless that ticket is the asking one. If the
-- script found the key free, an earlier waiter may have been woken and not have come: then it challenges others in the
-- queues too, but for the asking one. Returns the keys; nil if the ticket wants several locks, and they are not all free
-- for it: then it wakes nobody.
local function reserve(first, asking, found)
  local here, keys = key, {key}
  if not wantsSeveral(first) then
    keepFor(first)
  else
    keys = keepAllFor(first, asking, found)
    if not keys then
      return nil
    end
  end
  for i = 1, found and #keys or 0 do
    at(keys[i])
    muster(first, asking)
  end
  at(here)
  if first ~= asking then
    challenge('ready', first)
  end
  return keys
end
