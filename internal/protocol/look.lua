-- look: shows whether this server executes what a lock needs. It calls each command that a mutex calls.
--
-- KEYS[1]  a key that only this script uses
--
-- ARGV     none
--
-- Returns 'looked'; the key is gone then. If the server refuses a command, no key stays: SET gives the key an expiry, and
-- HSET and HINCRBY come after a DEL that was not refused, with the next DEL right behind them.
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
