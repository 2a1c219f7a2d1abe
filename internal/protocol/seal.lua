-- seal: reserves this server for a client that is about to make it one of a list's masters.
--
-- KEYS[1]  the server's list of masters
-- KEYS[2]  the seal
-- KEYS[3]  the quarantine of this run
-- KEYS[4]  the guard of this run
-- ARGV[1]  the client
-- ARGV[2]  the seal behind the client's name; no other seal has it
-- ARGV[3]  the name of the quarantine after which the client found the server
-- ARGV[4]  how long the seal lasts, in milliseconds; '0' to take the client's seal away
--
-- Returns 1 when the server is sealed, 0 when it has stood in a list, has another client's seal, or its quarantine is
-- another one, or not over: then nothing is changed.
if redis.call('EXISTS', KEYS[1]) == 1 or redis.call('HGET', KEYS[3], 'name') ~= ARGV[3]
  or redis.call('EXISTS', KEYS[4]) == 1 then
  return 0
end
local seal = redis.call('GET', KEYS[2])
if seal and string.sub(seal, 1, #ARGV[1]) ~= ARGV[1] then
  local left = redis.call('PTTL', KEYS[2])
  -- Another program took its end away, or the server's clock was set back.
  if left == -1 or left > tonumber(ARGV[4]) then
    redis.call('PEXPIRE', KEYS[2], ARGV[4])
  end
  return 0
end
if ARGV[4] == '0' then
  return redis.call('DEL', KEYS[2])
end
redis.call('SET', KEYS[2], ARGV[1] .. ARGV[2], 'PX', ARGV[4])
return 1
