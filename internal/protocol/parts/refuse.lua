-- refuse: refuses a waiter; the end of acquire.lua and read.lua. The waiter joins the queue, and its attempt may be parked.
-- inTheWay is the ticket that keeps it out, if the lock is reserved for it, or has room for the waiter; else nil. among is
-- set in the second case.
--
-- Needs among, flagsFor, holder, inTheWay, join, park, queue, tellHolder, ticket, wantsSeveral.
local place, flags = join(ticket, ARGV[6])
if place == 1 or string.find(flags, 'n', 1, true) then
  tellHolder(holder) -- the first repeats it when it polls, for a holder that has missed it
end
park(ticket, ARGV[8], KEYS[2], ARGV[3], ARGV[4], ARGV[1])
if inTheWay then
  flags = flags .. flagsFor(inTheWay, ticket, among or wantsSeveral(inTheWay))
  place = place + (redis.call('ZRANK', queue, inTheWay) and 0 or 1) -- behind the one it is reserved for
end
return {holder, redis.call('PTTL', KEYS[1]), place, flags}
