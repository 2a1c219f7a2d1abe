-- mark: marks that last for a time which is known; a part of the scripts that read them.

-- Returns a mark and its remaining milliseconds; nil if there is none. A mark that has more left than it
-- gets at most is from before this server's clock was set back: nobody knows how old it is, and it counts as over.
local function markAt(name, most)
  local text, left = redis.pcall('GET', name), redis.pcall('PTTL', name)
  if type(text) == 'string' and left <= most then
    return text, left
  end
end
