-- ahead: who waits ahead of a ticket; a part of the scripts that put waiters into the queue.
--
-- Needs client, dead, queue.

-- Counts the other clients that live ahead of a ticket at this position, up to three; with counts, those of
-- the tickets for which that function is true. It walks back from the ticket, so that it soon finds
-- three where there are many. It stops at an earlier ticket of the same client, or after 4096
-- tickets: then it may count too few.
local function clientsAhead(ticket, place, counts)
  local seen, clients = {}, 0
  for to = place - 2, math.max(0, place - 4096), -64 do
    local chunk = redis.call('ZRANGE', queue, math.max(0, to - 63), to)
    for i = #chunk, 1, -1 do
      local other = client(chunk[i])
      if chunk[i] < ticket and other == client(ticket) then
        return clients
      end
      if chunk[i] < ticket and not seen[other] and (not counts or counts(chunk[i])) then
        seen[other] = true
        clients = clients + (dead(chunk[i]) and 0 or 1)
      end
      if clients == 3 then
        return clients
      end
    end
  end
  return clients
end
