-- join: a waiter joins the wait queue; a part of the scripts that serve waiters.
--
-- Needs claim, dead, lives, markAt, prolong, queue, watchedKey.

-- Adds the ticket to the queue, unless it is there; a waiter whose ticket the node has dropped is added again. Returns
-- its position, and the flags of a refusal: n if it was added, u if the node cannot wake its client, d if it was added
-- just after others were told to look (see watch), so that it is to look two seconds later. A newcomer to a long queue
-- removes up to two tickets of dead clients, so that these do not pile up behind a first waiter that waits for long.
local function join(ticket, label)
  local new = redis.call('ZADD', queue, 0, ticket) == 1
  local place = redis.call('ZRANK', queue, ticket) + 1
  local hears = lives(ticket, label, place)
  prolong()
  if new and place > 8 then
    local seed = tonumber(string.sub(ticket, 9, 16)) or 0
    for _, rank in ipairs({seed % place, math.floor(seed / place) % place}) do
      local other = redis.call('ZRANGE', queue, rank, rank)[1]
      if other and dead(other) then
        redis.call('ZREM', queue, other)
      end
    end
  end
  local flags = (new and 'n' or '') .. (hears and '' or 'u')
  if new and markAt(watchedKey(), claim) then
    flags = flags .. 'd2000'
  end
  return place, flags
end
