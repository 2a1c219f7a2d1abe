-- asked: whether somebody else wants a lock that is held; a part of the scripts that renew leases whose
-- holders want to be told.
--
-- Needs head, queue.

-- Reports whether somebody waits for the lock, or has asked its holder to let it go. owner is the
-- holder's value of the lock's key, and asked the key that says who was asked. ticket is that of
-- the waiter that became the holder, which leaves the queue, or ''.
local function isAwaited(owner, ticket, asked)
  if ticket ~= '' then
    redis.call('ZREM', queue, ticket)
  end
  if redis.pcall('GET', asked) == owner then
    redis.call('DEL', asked)
    return true
  end
  return head() ~= nil
end
