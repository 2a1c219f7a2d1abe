-- queue: a wait queue; a part of the scripts that serve waiters.
--
-- The queue is a sorted set of tickets, all of one score, so that their bytes order it:
-- the instant of the call in microseconds, then the client, then a number.
--
-- A server that was idle executes this with cold caches: so the code that hands a lock
-- over makes few calls.
--
-- Needs key, queue.
local claim = 500 -- milliseconds that a reservation lasts, and that a challenged client has for its answer
local lifetime = 76000 -- for how long a client counts as alive after it asked: one that can be woken asks every 33 seconds

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

-- Returns the key that exists while a ticket's client counts as alive.
local function aliveOf(ticket)
  return 'redlock::alive:' .. client(ticket)
end

-- Returns the channel of a ticket's client.
local function channel(ticket)
  return 'redlock::wake:' .. client(ticket)
end

-- Reports whether a ticket's client is subscribed to its channel. The server knows at once that a killed process is
-- not. It asks once for each client.
local listening = {}
local function listens(ticket)
  local id = client(ticket)
  if listening[id] == nil then
    local reply = redis.pcall('PUBSUB', 'NUMSUB', channel(ticket))
    listening[id] = not reply.err and reply[2] > 0
  end
  return listening[id]
end

-- Has a ticket's client count as alive, as it asks from this position in the queue. A client that the node cannot wake
-- asks every 0.25 seconds times its position, up to 100: it counts as alive for two and a half times as long, and a second.
-- So does one whose label begins with ?: its subscriptions break again and again. The key's value is the label, behind ! if
-- the client is to be subscribed for as long as it lives, else behind ?. Returns whether it is to.
local function lives(ticket, label, place)
  local hears = string.sub(label, 1, 1) ~= '?' and listens(ticket)
    and type(redis.pcall('PUBLISH', 'redlock::wake:', '')) == 'number'
  local ms = hears and lifetime or math.max(3500, 625 * math.min(place, 100) + 1000)
  redis.call('SET', aliveOf(ticket), (hears and '!' or '?') .. label, 'PX', ms)
  return hears
end

-- Reports whether a ticket's client has been challenged, and has not answered.
local function isChallenged(ticket)
  return redis.call('PTTL', aliveOf(ticket)) <= claim
end

-- Has a ticket's client that was challenged count as alive: it has called this script.
local function answer(ticket)
  if isChallenged(ticket) then
    local value = redis.pcall('GET', aliveOf(ticket))
    local hears = type(value) == 'string' and string.sub(value, 1, 1) == '!'
    redis.call('PEXPIRE', aliveOf(ticket), hears and lifetime or 5000)
  end
end

-- Reports whether a ticket's client is dead: its key has ended, or it was to be subscribed, and is not any more.
local function dead(ticket)
  local value = redis.pcall('GET', aliveOf(ticket))
  return type(value) ~= 'string' or string.sub(value, 1, 1) == '!' and not listens(ticket)
end

-- Returns the holder that a value of the lock's key names, and the ticket that it reserves the lock for, if any. To the
-- asking ticket, a reservation for another whose client is dead is as none.
local function standing(value, asking)
  local kept = reserved(value)
  if kept and kept ~= asking and dead(kept) then
    return nil
  end
  return value, kept
end

-- Makes the queue last.
local function prolong()
  redis.call('PEXPIRE', queue, lifetime)
end

-- Puts back a ticket whose reservation was taken over.
local function putBack(ticket)
  redis.call('ZADD', queue, 0, ticket)
  prolong()
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

-- Sends a wake-up to a ticket's client. Without the right to publish it sends nothing, and the waiters poll. Returns
-- whether the client is subscribed.
local function tell(what, ticket, more)
  local reply = redis.pcall('PUBLISH', channel(ticket), what .. ' ' .. ticket .. ' ' .. (more or key))
  return type(reply) == 'number' and reply > 0
end

-- Challenges a ticket's client: sends a wake-up, and has the client count as dead unless it calls a script, or answers,
-- within half a second. A client that is challenged again gets no more time. Returns whether it was not before.
local function challenge(what, ticket)
  if not tell(what, ticket) or isChallenged(ticket) then
    return false
  end
  redis.call('PEXPIRE', aliveOf(ticket), claim)
  return true
end

-- Walks the queue, to the ticket upto if it is given, and calls act once for each client that is not in seen, with the
-- client's first ticket. It stops after act has returned true for most clients, or after 1024 tickets.
local function eachClient(seen, most, upto, act)
  local clients = 0
  for from = 0, 960, 64 do
    local chunk = redis.call('ZRANGE', queue, from, from + 63)
    for _, ticket in ipairs(chunk) do
      if upto and ticket > upto then
        return
      end
      if not seen[client(ticket)] then
        seen[client(ticket)] = true
        clients = clients + (act(ticket) and 1 or 0)
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

-- Challenges the clients of the first eight tickets that are neither of the first ticket's client nor of the asking one's.
-- So a machine that died with several clients delays the queue by half a second, not by that for each.
local function muster(first, asking)
  eachClient({[client(first)] = true, [client(asking or '')] = true}, 8, nil, function(ticket)
    return challenge('live', ticket)
  end)
end

-- Returns a mark and its remaining milliseconds; nil if there is none. A mark that has more left than it
-- gets at most is from before this server's clock was set back: nobody knows how old it is, and it counts as over.
local function markAt(name, most)
  local text, left = redis.pcall('GET', name), redis.pcall('PTTL', name)
  if type(text) == 'string' and left <= most then
    return text, left
  end
end

-- Returns the key of the note that waiters were told to look within the last half a second.
local function watchedKey()
  return 'redlock::watched:' .. key
end

-- Has nine clients behind the first waiter look, or all if they are fewer. If the machines of those ahead of them have
-- died, no other message tells them. They look one after the other, the first of them when a reservation would be over.
-- The last client in the queue, which was alive most lately, is the first to look. The others are from all parts of the
-- queue. For half a second it tells further clients only if half of the nine have been served. It never tells clients that
-- joined in that half second: they look without that (join.lua).
local function watch(first)
  local upto, last = string.match(markAt(watchedKey(), claim) or '', '^(%S+) (%S+)$')
  if upto and (first < upto or first >= last) then
    return
  end
  local final = last or redis.call('ZRANGE', queue, -1, -1)[1]
  if not final then
    return
  end
  local seen, told = {[client(first)] = true}, {}
  local function look(ticket)
    local heard = tell('watch', ticket, string.format('%d', claim + #told * claim / 4))
    if heard then
      told[#told + 1] = ticket
    end
    return heard
  end
  local function lookAt(rank)
    local ticket = redis.call('ZRANGE', queue, rank, rank)[1]
    if ticket and ticket <= final and not seen[client(ticket)] then
      seen[client(ticket)] = true
      look(ticket)
    end
  end
  local lastRank = redis.call('ZRANK', queue, final) or redis.call('ZCARD', queue) - 1
  for i = 9, 1, -1 do
    lookAt(math.floor(lastRank * i / 9))
  end
  if #told < 9 then
    eachClient(seen, 9 - #told, final, look)
  end
  table.sort(told)
  upto = #told < 9 and final or told[5]
  if last then
    redis.call('SET', watchedKey(), upto .. ' ' .. last, 'KEEPTTL')
  elseif #told > 0 then
    redis.call('SET', watchedKey(), upto .. ' ' .. final, 'PX', claim)
  end
end

-- Doubts that the client of the first ticket lives, which keeps others out of what is free for them: challenges it, and
-- others behind it but for the asking one's, if nothing was heard of it for two seconds.
local function doubt(first, asking)
  local left = redis.call('PTTL', aliveOf(first))
  local lately = left > lifetime - 2000 and left <= lifetime -- a longer time is from before the clock was set back
  if client(first) ~= client(asking or '') and not lately and challenge('look', first) then
    muster(first, asking)
  end
end

-- Returns the flags of a refusal of the asking ticket, which another keeps out: c if that one's client is challenged. waits
-- is set if that one waits for more than what is free, and would be enough for the asking one: it is doubted, and d, with
-- milliseconds, says when the asking waiter is to look again. Four waiters for a lock do in a second, and the first of
-- them a second later: the doubts' key ends when the last of them looks.
local function flagsFor(inTheWay, asking, waits)
  if waits then
    doubt(inTheWay, asking)
  end
  local flags = isChallenged(inTheWay) and 'c' or ''
  if not waits or asking == '' then
    return flags
  end
  local doubts = 'redlock::doubts:' .. key
  local _, left = markAt(doubts, 300000)
  left = math.max(left or 0, 750) + 250
  redis.call('SET', doubts, '', 'PX', left)
  return flags .. 'd' .. left
end

-- Parks an attempt, which was refused, for so many milliseconds, and drops the attempt before.
local function park(ticket, ms, record, counters, least, owner)
  if ms == '0' then
    redis.call('DEL', parkedKey(ticket))
  else
    redis.call('SET', parkedKey(ticket), table.concat({record, counters, least, owner}, ' '), 'PX', ms)
  end
end

-- Takes a ticket's parked attempt. Returns its record, counters, least count and owner; nil if there is none.
local function takeParked(ticket)
  local parked = redis.pcall('GET', parkedKey(ticket))
  if type(parked) == 'string' then
    redis.call('DEL', parkedKey(ticket))
    return string.match(parked, '^(%S+) (%S+) (%S+) (.*)$') -- another program's value does not match
  end
end

-- Takes a ticket out of the queue, and drops its parked attempt: its waiter leaves. Its client lives. Returns whether it
-- stood there.
local function leave(ticket)
  answer(ticket)
  redis.call('DEL', parkedKey(ticket))
  return redis.call('ZREM', queue, ticket) == 1
end

-- Has the first waiter look, since a ticket ahead of it has left, if it is another client's. A client sees to its own.
local function follow(ticket)
  local first = redis.call('ZRANGE', queue, 0, 0)[1]
  if first and first > ticket and client(first) ~= client(ticket) then
    tell('look', first)
  end
end
