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

-- Returns the channel of a ticket's client.
local function channel(ticket)
  return 'redlock::wake:' .. client(ticket)
end

-- Reports whether a ticket's client is subscribed to its channel: the server knows at once that a killed process is not.
-- A user who may not ask gets yes: then the liveness key alone decides. It asks once for each client.
local listening = {}
local function listens(ticket)
  local id = client(ticket)
  if listening[id] == nil then
    local reply = redis.pcall('PUBSUB', 'NUMSUB', channel(ticket))
    listening[id] = reply.err ~= nil or reply[2] > 0
  end
  return listening[id]
end

-- Has a ticket's client count as alive for ms milliseconds, unless it does so for least of them. A client that is not
-- subscribed cannot be woken here, and asks from time to time: it gets the mark ? ahead of its label.
local function keepAlive(ticket, label, least, ms)
  local value = (listens(ticket) and '!' or '?') .. label
  if redis.call('PTTL', aliveOf(ticket)) < least then
    redis.call('SET', aliveOf(ticket), value, 'PX', ms)
  elseif redis.pcall('GET', aliveOf(ticket)) ~= value then
    redis.call('SET', aliveOf(ticket), value, 'KEEPTTL')
  end
end

-- Has a ticket's client count as dead unless one of its waiters asks, or leaves, within the reservation's ttl. A client
-- that is challenged again meanwhile gets no more time.
local function hurry(ticket)
  if redis.call('PTTL', aliveOf(ticket)) > claim then
    redis.call('PEXPIRE', aliveOf(ticket), claim)
  end
end

-- Reports whether a ticket's client was subscribed when it asked last, and is not any more.
local function gone(ticket)
  local label = redis.pcall('GET', aliveOf(ticket))
  return type(label) == 'string' and string.sub(label, 1, 1) == '!' and not listens(ticket)
end

-- Reports whether a ticket's client is dead: it is gone, or has no liveness key. With patient, a client that is gone does not
-- count as dead yet: it is hurried, and the second value says so. Scripts are patient while others hold a part of the lock:
-- else somebody would pass a live client each time its subscription breaks.
local function dead(ticket, patient)
  if gone(ticket) then
    if patient then
      hurry(ticket)
    end
    return not patient, patient
  end
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

-- Returns the first ticket whose client lives, and drops those before it. patient is that of dead: it hurries up to 64 of the
-- first clients at once.
local function head(patient)
  local from, kept = 0, nil
  repeat
    local ticket = redis.call('ZRANGE', queue, from, from)[1]
    if not ticket then
      return kept
    end
    local isDead, hurried = dead(ticket, patient)
    if isDead then
      redis.call('ZREM', queue, ticket)
    elseif hurried and from < 64 then
      kept, from = kept or ticket, from + 1
    else
      return kept or ticket
    end
  until false
end

-- Sends a wake-up to a ticket's client. Without the right to publish it sends nothing, and
-- the waiters poll. Returns whether it has that right.
local function tell(what, ticket, more)
  local reply = redis.pcall('PUBLISH', channel(ticket), what .. ' ' .. ticket .. ' ' .. (more or key))
  return type(reply) == 'number'
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
