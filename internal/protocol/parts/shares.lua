-- shares: the shares of readers; a part of the scripts that read or change them.
--
-- While readers hold the lock, its key says `redlock::shared` and lasts exactly as long as
-- the longest share. The sorted set `readers` has the owner of each share, with the end of
-- the share in milliseconds of this server's clock. A share stands if the lock's key says
-- shared and its end is not over. When the key says anything else, the set means nothing.
-- So a client that knows nothing of readers sees a lock that is held.
--
-- No command that the server may refuse stands between a command that makes a key and
-- the one that sets its end: a missing right must not leave a key for ever.
--
-- Needs key, readers.
local shared = 'redlock::shared'
local clock = redis.call('TIME')
local now = clock[1] * 1000 + math.floor(clock[2] / 1000)

-- Drops the shares that are over. Returns the end of the longest of the others; nil if
-- there is none.
local function longest()
  redis.call('ZREMRANGEBYSCORE', readers, '-inf', now)
  return tonumber(redis.call('ZRANGE', readers, -1, -1, 'WITHSCORES')[2])
end

-- Makes the lock's key last as long as the longest share, or removes it. Returns whether
-- there is a share.
local function settle()
  local last = longest()
  if last then
    redis.call('PEXPIREAT', readers, last)
    redis.call('SET', key, shared, 'PXAT', last)
  else
    redis.call('DEL', key)
  end
  return last ~= nil
end

-- Gives the owner a share for ms milliseconds, or prolongs it. held is the value of the
-- lock's key until now.
local function share(owner, ms, held)
  local ends = now + ms
  local last
  if held == shared then
    redis.call('ZREM', readers, owner) -- its end may become earlier
    last = longest()
  end
  if not last then
    redis.call('DEL', readers) -- shares of another time
  end
  last = math.max(last or 0, ends)
  local made = redis.call('PEXPIREAT', readers, last) == 0
  redis.call('ZADD', readers, ends, owner)
  if made then
    redis.call('PEXPIREAT', readers, last)
  end
  redis.call('SET', key, shared, 'PXAT', last)
end
