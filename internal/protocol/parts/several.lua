-- several: what concerns a waiter for several locks; a part of the scripts that make it wait.

-- Records which locks a waiter wants: the first n of KEYS. far is its farthest position: the
-- record lasts until its client counts as dead there.
local function want(ticket, n, far)
  local list = {}
  for i = 1, n do
    list[i] = #KEYS[i] .. ':' .. KEYS[i]
  end
  redis.call('SET', 'redlock::wants:' .. ticket, table.concat(list), 'PX', 2500 * math.min(far, 300) + 1000)
end
