-- queue: a wait queue; a part of the scripts that serve waiters.
--
-- The queue is a sorted set of tickets, all of one score, so that their bytes order it:
-- the instant of the call in microseconds, then the client, then a number.
--
-- A server that was idle executes this with cold caches: so the code that hands a lock
-- over makes few calls.
--
-- Needs key, queue.
local claim = 500 -- milliseconds that a reservation lasts

-- Returns the key of a ticket's parked attempt, which release may execute.
local function parkedKey(ticket)
  return 'redlock::parked:' .. ticket
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
  return 'redlock::alive:' .. client(ticket) .. ':' .. key
end

local function dead(ticket)
  return redis.call('EXISTS', aliveOf(ticket)) == 0
end

-- Makes the queue last for at least ms milliseconds.
local function prolong(ms)
  if redis.call('PTTL', queue) < ms then
    redis.call('PEXPIRE', queue, ms)
  end
end

-- Puts back a ticket whose reservation was taken over.
local function putBack(ticket)
  redis.call('ZADD', queue, 0, ticket)
  prolong(5000)
end

-- Returns the first ticket whose client lives, and drops those before it.
local function head()
  repeat
    local first = redis.call('ZRANGE', queue, 0, 0)[1]
    if not first or not dead(first) then
      return first
    end
    redis.call('ZREM', queue, first)
  until false
end

-- Sends a wake-up to a ticket's client. Without the right to publish it sends nothing, and
-- the waiters poll. Returns whether it has that right.
local function tell(what, ticket, more)
  local reply = redis.pcall('PUBLISH', 'redlock::wake:' .. client(ticket), what .. ' ' .. ticket .. ' ' .. (more or key))
  return type(reply) == 'number'
end

-- Has a ticket's client count as dead unless one of its waiters asks, or leaves, within the reservation's ttl. A client
-- that is challenged again meanwhile gets no more time.
local function hurry(ticket)
  if redis.call('PTTL', aliveOf(ticket)) > claim then
    redis.call('PEXPIRE', aliveOf(ticket), claim)
  end
end

-- Challenges a ticket's client: sends a wake-up that the client must answer.
local function challenge(what, ticket)
  tell(what, ticket)
  hurry(ticket)
end

-- Walks the queue and calls act once for each client that is not in seen, with the client's first ticket for
-- which counts(ticket) is true. It stops after most clients, or after 1024 tickets.
local function eachClient(seen, most, counts, act)
  local clients = 0
  for from = 0, 960, 64 do
    local chunk = redis.call('ZRANGE', queue, from, from + 63)
    for _, ticket in ipairs(chunk) do
      if not seen[client(ticket)] and counts(ticket) then
        seen[client(ticket)] = true
        act(ticket)
        clients = clients + 1
      end
      if clients == most then
        return
      end
    end
    if #chunk < 64 then
      return
    end
  end
end

-- Challenges the first eight clients in the queue that are not in seen, each by its first
-- ticket; with writers, the first eight that wait with a ticket that is not a reader's. So a machine
-- that died with several of them delays the queue by one reservation's ttl, not by one for each.
local function muster(seen, writers)
  eachClient(seen, 8, function(ticket)
    return not writers or string.sub(ticket, -1) ~= 'r'
  end, function(ticket)
    challenge('look', ticket)
  end)
end
