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
-- Needs aliveOf, at, claim, client, dead, gone, head, key, muster, queue, reserved, tell, valueOf.

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
    local holder = open and other ~= here and valueOf(other, true)
    local kept = type(holder) == 'string' and reserved(holder)
    local free = not holder or kept == ticket
    if kept and not free then
      free = gone(kept) -- the one for whom it is reserved does not come
    end
    open = open and free and leads(ticket)
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

-- Challenges the client of a ticket, and others behind it but for the asking one's, unless it is
-- the asking one, or has just polled as the first in the queue: it may have died, and count as
-- alive for long by a waiter of its own farther back. writers is that of muster. Returns whether it
-- did. A challenge that cannot be sent must not cost a live client its place.
local function doubt(ticket, asking, writers)
  local left = redis.call('PTTL', aliveOf(ticket))
  if client(ticket) == client(asking or '') or left >= 2000 and left <= 3500 or not tell('look', ticket) then
    return false
  end
  redis.call('PEXPIRE', aliveOf(ticket), claim)
  muster({[client(ticket)] = true, [client(asking or '')] = true}, writers)
  return true
end

-- Reserves all locks that the first ticket wants, and returns whether it did. If it cannot, it
-- reserves this one alone: the ticket stays in the queue, and its waiter renews the reservation
-- when it polls. The script that found the lock free doubts then whether the client lives. Returns
-- the keys of the locks, or nil.
local function keepAllFor(first, asking, found)
  local keys, here = wantedKeys(first), key
  if not keys then
    local challenged = found and doubt(first, asking)
    redis.call('SET', key, 'redlock::reserved:' .. first, 'PX', challenged and claim or 2000)
    return nil
  end
  for _, other in ipairs(keys) do
    at(other)
    keepFor(first)
  end
  at(here)
  return keys
end

-- Reserves the free key for the first ticket, and wakes its client unless that ticket is
-- the asking one. If the script found the key free, an earlier waiter may have been woken
-- and not have come: then it challenges the clients in the queues, but for the asking one. A
-- client counts as dead in each queue by itself, so those of a set are challenged in all its queues.
-- Returns false if the ticket wants several locks, and they are not all free for it: then it wakes
-- nobody.
local function reserve(first, asking, found)
  local here, keys = key, {key}
  if not wantsSeveral(first) then
    keepFor(first)
  else
    keys = keepAllFor(first, asking, found)
    if not keys then
      return false
    end
  end
  for i = 1, found and #keys or 0 do
    at(keys[i])
    muster({[client(first)] = true, [client(asking or '')] = true})
    if first ~= asking then
      redis.call('PEXPIRE', aliveOf(first), claim) -- "ready" is its challenge
    end
  end
  at(here)
  if first ~= asking then
    tell('ready', first)
  end
  return true
end
