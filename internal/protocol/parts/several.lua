-- several: what concerns a waiter for several locks; a part of the scripts that make it wait.

-- Records which locks a waiter wants: the first n of KEYS. Its waiter asks within a second of becoming its client's
-- foremost, and mostly comes to that within this time.
local function want(ticket, n)
  local list = {}
  for i = 1, n do
    list[i] = #KEYS[i] .. ':' .. KEYS[i]
  end
  redis.call('SET', 'redlock::wants:' .. ticket, table.concat(list), 'PX', 900000)
end
