-- look: shows whether this server does what a lock needs. It calls each command that a mutex calls, at a key of its own.
--
-- KEYS[1]  that key, which only this script uses
--
-- ARGV     none
--
-- Returns 'looked'; the key is gone then. The commands that make it have none between them and DEL that the server may
-- refuse: at SET the key has an end, and later DEL was not refused.
local key = KEYS[1]
redis.call('SET', key, '1', 'PX', '1000')
redis.call('GET', key)
redis.call('GETRANGE', key, '0', '0')
redis.call('EXISTS', key)
redis.call('PTTL', key)
redis.call('PEXPIRE', key, '1000')
redis.call('DEL', key)
redis.call('HSET', key, 'count', '1')
redis.call('DEL', key)
redis.call('HINCRBY', key, 'count', '1')
redis.call('DEL', key)
redis.call('HGET', key, 'count')
redis.call('HEXISTS', key, 'count')
redis.call('ZADD', key, 'XX', '0', 'ticket')
redis.call('ZREM', key, 'ticket')
redis.call('ZRANGE', key, '0', '0')
redis.call('ZRANK', key, 'ticket')
redis.call('ZCARD', key)
return 'looked'
