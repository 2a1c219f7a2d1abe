-- several: what concerns an attempt of several locks; a part of the scripts that grant one, in
-- place of their @several.

-- Counts a grant of several locks: the counters of their stripes, with commas between, all
-- become the greatest of them plus one. Returns that count. Returns nil, and changes nothing,
-- if a counter is missing or shows that the record is not whole.
local function countSeveral(record, stripes, least)
  local count = 0
  for stripe in string.gmatch(stripes, '%d+') do
    local before = tonumber(redis.call('HGET', record, stripe) or least == '1' and '0')
    if not before or before + 1 < tonumber(least) then
      return nil
    end
    count = math.max(count, before + 1)
  end
  if count == 1 then
    -- Without admission no record was made: admit.lua says what the field is for.
    redis.call('HSET', record, 'about', 'counters of fencing tokens, by stripe; without admission they begin at 0')
  end
  for stripe in string.gmatch(stripes, '%d+') do
    redis.call('HSET', record, stripe, string.format('%.0f', count))
  end
  return count
end

-- Records which locks a waiter wants: the first n of KEYS. far is its farthest position: the
-- record lasts until its client counts as dead there.
local function want(ticket, n, far)
  local list = {}
  for i = 1, n do
    list[i] = #KEYS[i] .. ':' .. KEYS[i]
  end
  redis.call('SET', 'redlock::wants:' .. ticket, table.concat(list), 'PX', 2500 * math.min(far, 300) + 1000)
end
