-- wake: wakes the first waiter for permits of a semaphore, if enough slots are free for it: a slot
-- became free in another way than by a release of permits. How many slots there are is not known
-- here: if they are too few for the waiter, it asks in vain.
--
-- KEYS[1]  the semaphore's wait queue
-- ARGV[1]  the key of a slot, but for its number
-- ARGV[2]  how many slots a semaphore may have
--
-- Returns 1 if somebody waits, else 0.
--@value
--@slots
--@queue
--@waiting
--@serve
base, size = ARGV[1], tonumber(ARGV[2])
redis.call('DEL', fullKey())
return serve(nil, 1) and 1 or 0
