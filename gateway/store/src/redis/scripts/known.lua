-- Which of the commands ARGV the server does not know, each called without an argument: of those that the store needs, INFO and
-- TIME alone do anything then.
local missing = {}
for _, name in ipairs(ARGV) do
  local said = redis.pcall(name)
  if type(said) == 'table' and said.err and string.find(string.lower(said.err), 'unknown', 1, true) then
    missing[#missing + 1] = name
  end
end
return missing
