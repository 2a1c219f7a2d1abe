-- renewall: prolongs a lease of several locks at this node; where keys are missing, creates them
-- anew. It prolongs all of them or none.
--
-- KEYS[1]…[n]  the locks' keys
-- KEYS[n+1]    the record of this run of the server
-- KEYS[n+2]    the server's list of masters
-- KEYS[n+3]…   only with ARGV[4]: the locks' wait queues, and then the keys that say who was asked to let each go
-- ARGV         as renew's
--
-- Returns as renew does: 1 when all keys were still the lease's; 2 when some were missing, or
-- only reserved, and have been created; 0 when some were missing or reserved and this server
-- has no record; 5 and 6 when it stands in another list of masters, or in none; else {holder, remaining
-- milliseconds} of the first that is another's.
--@value
local n = ARGV[4] and (#KEYS - 2) / 3 or #KEYS - 2
local stranger = ARGV[3] ~= '' and redis.call('HGET', KEYS[n + 2], 'id') ~= ARGV[3]
local mine = 0
for i = 1, n do
  if redis.call('GETRANGE', KEYS[i], '0', '511') == ARGV[1] then
    mine = mine + 1
  end
end
if mine == n then
  for i = 1, n do
    redis.call('PEXPIRE', KEYS[i], ARGV[2])
  end
  if stranger then
    return 6
  elseif not ARGV[4] then
    return 1
  end
end
--@lock
--@queue
--@asked

-- Returns the reply, plus 10 if the holder wants to be told, and others want one of the locks.
local function withAwaited(reply)
  local awaited = false
  for i = 1, ARGV[4] and n or 0 do
    at(KEYS[i])
    awaited = isAwaited(ARGV[1], ARGV[4], KEYS[2 * n + 2 + i]) or awaited
  end
  return awaited and reply + 10 or reply
end
if mine == n then
  return withAwaited(1)
end
for i = 1, n do
  local holder = valueOf(KEYS[i])
  if holder and holder ~= ARGV[1] and not reserved(holder) then
    return {holder, redis.call('PTTL', KEYS[i])}
  end
end
if ARGV[3] ~= '' and redis.call('HEXISTS', KEYS[n + 1], 'nodes') == 0 then
  return 0
elseif stranger then
  return 5
end
for i = 1, n do
  at(KEYS[i])
  local kept = reserved(valueOf(key))
  if kept then
    putBack(kept)
  end
  redis.call('SET', key, ARGV[1], 'PX', ARGV[2])
end
return withAwaited(2)
