-- line: the part that acquire, release, renew and seize share, in place of their @line:
-- the line of the waiters for the lock KEYS[1].
--
-- It is a sorted set of tickets, all of one score, so that their bytes order it:
-- the instant of asking in microseconds, then the client, then a number. A free
-- key is not left free while there are waiters: it is reserved for the first ticket
-- for a short claim time. That gives no rights, only order: it keeps newcomers
-- out. A reservation removes its ticket from the line, so a waiter that does not
-- come is passed over; one that looks again is back with its old ticket.
--
-- A server that was idle executes this cold: so the code that hands a lock over
-- makes few calls.
local claim = 500 -- milliseconds that a reservation lasts
local line = 'redlock::line:' .. KEYS[1]

-- The key of a ticket's refused attempt, which release may execute late.
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

-- The key that exists while the client of a ticket counts as alive for this lock.
local function aliveOf(ticket)
  return 'redlock::alive:' .. client(ticket) .. ':' .. KEYS[1]
end

local function dead(ticket)
  return redis.call('EXISTS', aliveOf(ticket)) == 0
end

-- Makes the line last for at least ms milliseconds.
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
local function head()
  repeat
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or not dead(first) then
      return first
    end
    redis.call('ZREM', line, first)
  until false
end

-- Sends a message to a ticket's client. Without the right to publish it sends nothing, and
-- the waiters' timers serve.
local function tell(what, ticket, more)
  redis.pcall('PUBLISH', 'redlock::wake:' .. client(ticket), what .. ' ' .. ticket .. ' ' .. (more or KEYS[1]))
end

-- Sends a ticket's client a message that it must answer: it counts as dead unless one of
-- its waiters asks, or leaves, within the claim time.
local function challenge(what, ticket)
  tell(what, ticket)
  redis.call('PEXPIRE', aliveOf(ticket), claim)
end

-- Challenges the first ticket of each of the first eight clients in line that are not in
-- seen. So a machine that died with several of them delays the line by one claim time,
-- not by one for each.
local function muster(seen)
  local clients = 0
  for from = 0, 960, 64 do
    local chunk = redis.call('ZRANGE', line, from, from + 63)
    for _, ticket in ipairs(chunk) do
      if not seen[client(ticket)] then
        seen[client(ticket)] = true
        challenge('look', ticket)
        clients = clients + 1
      end
      if clients == 8 then
        return
      end
    end
    if #chunk < 64 then
      return
    end
  end
end

-- Reserves the free key for the first ticket, and calls its client, unless it is the
-- ticket that is asking.
-- Where the key was found free, another one may have been called and not have come:
-- then the clients in line must show that they live, but for the asking one.
local function reserve(first, asking, found)
  redis.call('ZREM', line, first)
  redis.call('SET', KEYS[1], 'redlock::reserved:' .. first, 'PX', claim)
  if found then
    muster({[client(first)] = true, [client(asking or '')] = true})
  end
  if first == asking then
    return
  end
  if found then
    challenge('ready', first)
  else
    tell('ready', first)
  end
end

-- Adds the ticket to the line, unless it is there. Returns its place, and whether it was
-- added; a waiter whose ticket the node has dropped is added again. The waiter at place
-- p looks again after about p seconds, 300 at most; its client counts as alive here for
-- two and a half times as long. A newcomer to a long line removes two
-- others if they are dead, so that the dead do not pile up behind a head that waits for
-- long.
local function join(ticket, label)
  local new = redis.call('ZADD', line, 0, ticket) == 1
  local place = redis.call('ZRANK', line, ticket) + 1
  local ms = 2500 * math.min(place, 300) + 1000
  local alive = aliveOf(ticket)
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
  return place, new
end
