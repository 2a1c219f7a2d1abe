-- count: counts a grant of several locks; a part of the scripts that grant one. It stands ahead of the
-- other parts: a grant that meets nobody needs no more.

-- Counts a grant of several locks: the counters of their stripes, with commas between, all
-- become the greatest of them plus one. Returns that count. Returns nil, and changes nothing,
-- if a counter is missing or shows that the record is not whole.
local function countSeveral(record, stripes, least)
  local count, fields = 0, {} -- fields: the stripes, each with the count behind it
  for stripe in string.gmatch(stripes, '%d+') do
    local before = tonumber(redis.call('HGET', record, stripe) or least == '1' and '0')
    if not before or before + 1 < tonumber(least) then
      return nil
    end
    count = math.max(count, before + 1)
    fields[#fields + 1], fields[#fields + 2] = stripe, ''
  end
  if count == 1 then
    -- Without admission no record was made: admit.lua says what the field is for.
    redis.call('HSET', record, 'about', 'counters of fencing tokens, by stripe; without admission they begin at 0')
  end
  local text = string.format('%.0f', count)
  for i = 2, #fields, 2 do
    fields[i] = text
  end
  redis.call('HSET', record, unpack(fields))
  return count
end
