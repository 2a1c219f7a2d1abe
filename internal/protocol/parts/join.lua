-- join: a waiter joins the wait queue; a part of the scripts that serve waiters.
--
-- Needs dead, keepAlive, prolong, queue.

-- Adds the ticket to the queue, unless it is there. Returns its position, and whether it
-- was added; a waiter whose ticket the node has dropped is added again. The waiter at
-- position p polls after about p seconds, 300 at most; its client counts as alive here
-- for two and a half times as long. A newcomer to a long queue removes up to two tickets
-- of dead clients, so that these do not pile up behind a first waiter that waits for long.
local function join(ticket, label)
  local new = redis.call('ZADD', queue, 0, ticket) == 1
  local place = redis.call('ZRANK', queue, ticket) + 1
  local ms = 2500 * math.min(place, 300) + 1000
  keepAlive(ticket, label, ms, ms)
  prolong(ms)
  if new and place > 8 then
    local seed = tonumber(string.sub(ticket, 9, 16)) or 0
    for _, rank in ipairs({seed % place, math.floor(seed / place) % place}) do
      local other = redis.call('ZRANGE', queue, rank, rank)[1]
      if other and dead(other, true) then
        redis.call('ZREM', queue, other)
      end
    end
  end
  return place, new
end
