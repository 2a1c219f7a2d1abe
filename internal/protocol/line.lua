-- line: the wait queue of the lock KEYS[1]. acquire, release, renew and seize share this
-- part; it takes the place of their @line.
--
-- The queue is a sorted set of tickets, all of one score, so that their bytes order it:
-- the instant of the call in microseconds, then the client, then a number. A key that
-- becomes free while there are waiters is reserved for the first ticket, for half a
-- second. That gives no rights, only order: it keeps newcomers out. A reservation
-- removes its ticket from the queue, so a waiter that does not come is passed over; a
-- waiter that polls is back with its old ticket.
--
-- A server that was idle executes this with cold caches: so the code that hands a lock
-- over makes few calls.
local claim = 500 -- milliseconds that a reservation lasts
local line = 'redlock::line:' .. KEYS[1]

-- Returns the key of a ticket's parked attempt, which release may execute.
local function parkedKey(ticket)
  return 'redlock::bid:' .. ticket
end

-- Returns the client that a ticket belongs to.
local function client(ticket)
  return string.match(ticket, '^%d+%-(%w+)') or ''
end

-- Returns the ticket that a value of the lock's key reserves it for; nil for an owner.
local function reserved(value)
  return value and string.match(value, '^redlock::reserved:(.+)$')
end

-- Returns the key that exists while a ticket's client counts as alive for this lock.
local function aliveOf(ticket)
  return 'redlock::alive:' .. client(ticket) .. ':' .. KEYS[1]
end

local function dead(ticket)
  return redis.call('EXISTS', aliveOf(ticket)) == 0
end

-- Makes the queue last for at least ms milliseconds.
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

-- Returns the first ticket whose client lives, and drops those before it.
local function head()
  repeat
    local first = redis.call('ZRANGE', line, 0, 0)[1]
    if not first or not dead(first) then
      return first
    end
    redis.call('ZREM', line, first)
  until false
end

-- Sends a wake-up to a ticket's client. Without the right to publish it sends nothing, and
-- the waiters poll.
local function tell(what, ticket, more)
  redis.pcall('PUBLISH', 'redlock::wake:' .. client(ticket), what .. ' ' .. ticket .. ' ' .. (more or KEYS[1]))
end

-- Challenges a ticket's client: sends a wake-up that the client must answer. It counts as
-- dead unless one of its waiters asks, or leaves, within the reservation's ttl.
local function challenge(what, ticket)
  tell(what, ticket)
  redis.call('PEXPIRE', aliveOf(ticket), claim)
end

-- Challenges the first eight clients in the queue that are not in seen, each by its first
-- ticket. So a machine that died with several of them delays the queue by one
-- reservation's ttl, not by one for each.
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

-- Reserves the free key for the first ticket, and wakes its client unless that ticket is
-- the asking one. If the script found the key free, an earlier waiter may have been woken
-- and not have come: then it challenges the clients in the queue, but for the asking one.
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

-- Adds the ticket to the queue, unless it is there. Returns its position, and whether it
-- was added; a waiter whose ticket the node has dropped is added again. The waiter at
-- position p polls after about p seconds, 300 at most; its client counts as alive here
-- for two and a half times as long. A newcomer to a long queue removes up to two tickets
-- of dead clients, so that these do not pile up behind a first waiter that waits for long.
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
