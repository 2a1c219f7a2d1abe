-- line: what acquire, release, renew and seize share, in place of their @line: the line
-- of those who wait for the lock KEYS[1].
--
-- It is a sorted set of tickets, all of one score, so that their bytes order it:
-- the instant of asking in microseconds, then the client, then a number. A free
-- key is not left free while somebody waits: it is reserved for the first ticket
-- for a short claim time. That gives no rights, only order: it keeps newcomers
-- out. Whoever it is reserved for has left the line, so one that does not come
-- is passed over; a waiter that looks again is back with its old ticket.
--
-- A server that was idle executes this cold: what is on the way of a hand-over
-- makes few calls.
local claim = 500 -- milliseconds that a reservation lasts
local line = 'redlock::line:' .. KEYS[1]

-- The attempt of a ticket that was refused and may be executed late.
local function bidOf(ticket)
  return 'redlock::bid:' .. ticket
end

-- The client that a ticket belongs to.
local function client(ticket)
  return string.match(ticket, '^%d+%-(%w+)') or ''
end

-- The ticket that a value of the lock's key reserves it for; nil for an owner.
local function reserved(value)
  return value and string.match(value, '^redlock::reserved:(.+)$')
end

local function dead(ticket)
  return redis.call('EXISTS', 'redlock::alive:' .. client(ticket)) == 0
end

-- Makes the line last for so many milliseconds, at least.
local function last(ms)
  if redis.call('PTTL', line) < ms then
    redis.call('PEXPIRE', line, ms)
  end
end

-- Puts back a ticket whose reservation was taken over.
local function putBack(ticket)
  redis.call('ZADD', line, 0, ticket)
  last(5000)
end

-- The first in line whose client lives. Dead ones before it are dropped.
local dropped = false
local function head()
  repeat
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or not dead(first) then
      return first
    end
    redis.call('ZREM', line, first)
    dropped = true
  until false
end

-- Where there is no right to publish, the waiters' timers serve.
local function tell(what, ticket, more)
  redis.pcall('PUBLISH', 'redlock::wake:' .. client(ticket), what .. ' ' .. ticket .. ' ' .. (more or KEYS[1]))
end

-- Tells the first two in line that they are near: from then on they look every
-- second, and notice when whoever is before them has died.
local function tellNear()
  for _, ticket in ipairs(redis.call('ZRANGE', line, 0, 1)) do
    tell('near', ticket)
  end
end

-- Where the next in line is of this client too, which may have died as a whole,
-- one of another client is told that it is near: the last in line, or one of those
-- at 1, 3, 7, … behind it.
local function tellAnother(mine)
  local rank = 0
  repeat
    local other = redis.call('ZRANGE', line, rank, rank)[1]
    if not other then
      other = redis.call('ZRANGE', line, -1, -1)[1]
    end
    if not other or client(other) ~= mine then
      return other and rank > 0 and tell('near', other)
    end
    rank = 2 * rank + 1
  until rank > 4095
end

-- Tells the second in line that it is near, as the first was when it was second.
local function tellSecond()
  local second = redis.call('ZRANGE', line, 1, 1)[1]
  if second then
    tell('near', second)
  end
end

-- Keeps the free key for the first in line, and tells it, unless it asks itself.
-- Where the key was found free, another one may have been called and not have come:
-- then a client that does not come either is taken for dead, with all its tickets.
local function reserve(first, asking, found)
  redis.call('ZREM', line, first)
  redis.call('SET', KEYS[1], 'redlock::reserved:' .. first, 'PX', claim)
  if first ~= asking then
    tell('ready', first)
    if found then
      redis.call('PEXPIRE', 'redlock::alive:' .. client(first), claim)
    end
  end
  if dropped or found then
    tellNear()
  end
  tellAnother(client(first))
end

-- Joins the line, or stays there, and returns the place. Place p looks again after
-- about p seconds, but not later than after 300: its client counts as alive for
-- two and a half of these. A newcomer to a long line looks at two others, so that
-- the dead do not pile up behind a head that waits for long.
local function join(ticket, label)
  local new = redis.call('ZADD', line, 0, ticket) == 1
  local place = redis.call('ZRANK', line, ticket) + 1
  local ms = 2500 * math.min(place, 300) + 1000
  local alive = 'redlock::alive:' .. client(ticket)
  if redis.call('PTTL', alive) < ms then
    redis.call('SET', alive, label, 'PX', ms)
  end
  last(ms)
  if new and place > 8 then
    local seed = tonumber(string.sub(ticket, 9, 16)) or 0
    for _, rank in ipairs({seed % place, math.floor(seed / place) % place}) do
      local other = redis.call('ZRANGE', line, rank, rank)[1]
      if other and dead(other) then
        redis.call('ZREM', line, other)
      end
    end
  end
  return place
end
