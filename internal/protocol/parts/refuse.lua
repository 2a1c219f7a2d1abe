-- refuse: refuses a waiter; the end of acquire.lua and read.lua. The waiter joins the queue, and
-- its attempt may be parked. found is set if the script found the key free and has reserved it for an
-- earlier waiter; kept is the ticket that the key was reserved for before. counts is that of clientsAhead:
-- where readers hold the lock, and writers ahead keep this reader out, it watches over them unless three
-- other clients of readers do. challenged is set if the clients of these writers have been challenged.
--
-- Needs challenged, clientsAhead, counts, found, holder, join, kept, queue, parkedKey, tellHolder, ticket.
local place, new = join(ticket, ARGV[6])
if new or place == 1 then
  tellHolder(holder) -- the first repeats it when it polls, for a holder that has missed it
end
local clients = clientsAhead(ticket, place, counts)
if ARGV[8] == '0' then
  redis.call('DEL', parkedKey(ticket)) -- of the attempt before
else
  redis.call('SET', parkedKey(ticket), table.concat({KEYS[2] or '', ARGV[3], ARGV[4], ARGV[1]}, ' '), 'PX', ARGV[8])
end
if found then
  place = 2 -- it watches over the one that is called
elseif kept and not redis.call('ZRANK', queue, kept) then
  place = place + 1 -- behind the one it is reserved for
end
return {holder, redis.call('PTTL', KEYS[1]), place, clients, (new and 1 or 0) + (challenged and 2 or 0)}
