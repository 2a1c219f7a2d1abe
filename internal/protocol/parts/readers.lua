-- readers: what concerns readers in the wait queue; a part of the scripts that let them in.
--
-- Needs claim, dead, queue, now, readers, reserve, share, shared, takeParked, tell.

-- Reports whether the ticket is a reader's.
local function reads(ticket)
  return string.sub(ticket, -1) == 'r'
end

-- Returns the ticket of a writer whose client lives, and that waits with an earlier ticket than this one, or with any if it
-- is ''; nil if there is none. It drops the dead writers that it meets, and looks at some 4096 tickets at most.
local function writerAhead(ticket)
  local from = 0
  repeat
    local chunk = redis.call('ZRANGE', queue, from, from + 63)
    for _, other in ipairs(chunk) do
      if ticket ~= '' and other >= ticket then
        return nil
      end
      if reads(other) then
        from = from + 1
      elseif dead(other) then
        redis.call('ZREM', queue, other)
      else
        return other
      end
    end
  until #chunk < 64 or from >= 4096
end

-- Executes a reader's parked attempt, and sends the reader the count. The share lasts as
-- long as a reservation. held is the value of the lock's key. Returns whether there was
-- such an attempt.
local function executeRead(ticket, held)
  local record, stripe, least, owner = takeParked(ticket)
  local count = owner and tonumber(redis.call('HGET', record, stripe))
  if not count or count < tonumber(least) then
    return false
  end
  if held == shared then
    redis.call('ZADD', readers, now + claim, owner) -- the set lasts as long, by the first
  else
    share(owner, claim, held)
  end
  tell('yours', ticket, string.format('%.0f ', count) .. owner)
  return true
end

-- Lets in the readers in front of the first writer, up to 32 of them; each that comes, or
-- renews its share, lets in more. With executes, parked attempts are executed; the other readers are woken. held
-- is the value of the lock's key; if it is nil or false, the lock is reserved for the first
-- reader that is woken. asking and found are those of reserve. With after, only readers
-- behind that ticket are let in: readers that get a share here and are refused elsewhere
-- must not wake each other in a circle.
local function letReadersIn(held, executes, asking, found, after)
  for _, ticket in ipairs(redis.call('ZRANGE', queue, 0, 31)) do
    if not reads(ticket) then
      break
    end
    local behind = not after or ticket > after
    if behind then
      redis.call('ZREM', queue, ticket)
    end
    if behind and not dead(ticket) then
      if executes and executeRead(ticket, held) then
        held = shared
      elseif held then
        tell('ready', ticket)
      else
        reserve(ticket, asking, found)
        held = 'redlock::reserved:' .. ticket
      end
    end
  end
end
