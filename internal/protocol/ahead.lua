-- ahead: a part of acquire.lua, acquireall.lua, read.lua and permit.lua, in place of their @ahead.

-- Counts the other clients ahead of a ticket at this position, up to three; with reading,
-- those that wait as readers. It walks back from the ticket, so that it soon finds three where
-- there are many. It stops at an earlier ticket of the same client, or after 4096 tickets: then
-- it may count too few.
local function clientsAhead(ticket, place, reading)
  local seen, clients = {}, 0
  for to = place - 2, math.max(0, place - 4096), -64 do
    local chunk = redis.call('ZRANGE', line, math.max(0, to - 63), to)
    for i = #chunk, 1, -1 do
      local other = client(chunk[i])
      if chunk[i] < ticket and other == client(ticket) then
        return clients
      end
      if chunk[i] < ticket and not seen[other] and (not reading or string.sub(chunk[i], -1) == 'r') then
        seen[other] = true
        clients = clients + 1
      end
      if clients == 3 then
        return clients
      end
    end
  end
  return clients
end
