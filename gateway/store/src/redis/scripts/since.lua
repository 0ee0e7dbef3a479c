-- Begins every script of a sale. What has been committed since a gateway was last up to date, and whose turn it is. A sale
-- of another format than FORMAT, which stands before this, is not touched.
--
-- Reads KEYS[1], the head (hash): format, version, line, from, branch, run, generation, base, core, definition,
-- definition_version, turns, turn_until, turn_of, spread, spread_version, wanted; KEYS[2], the log (list of entries up to the
-- version, the oldest may be gone); TIME; INFO server. Writes turns, turn_until and turn_of.
--
-- A gateway whose batch came too late is put on the list of turns, and only the first on the list may commit: so nobody
-- is overtaken by each of the others more than once while on it. Who does not come in time, or does not commit in time after
-- that, loses the turn; where nobody waits, whoever is the fastest may commit.
local TURN_MS = 250
local head = {}
do
  local names = {'version', 'line', 'from', 'branch', 'run', 'generation', 'base', 'definition_version', 'turns',
    'turn_until', 'turn_of', 'spread_version', 'wanted', 'format'}
  local values = redis.call('HMGET', KEYS[1], unpack(names))
  for i, name in ipairs(names) do
    head[name] = values[i]
  end
end
if head.format and head.format ~= FORMAT then
  return redis.error_reply('FORMAT ' .. head.format)
end
local clock = redis.call('TIME')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')

local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
-- Who is on the list, and the version when each was put there; until when the first has its turn, and whose came and has
-- begun.
local turns, listed_at, turn_until, turn_of = {}, {}, tonumber(head.turn_until or 0), head.turn_of or ''
for gateway, version in string.gmatch(head.turns or '', '(%x+)@(%d+)') do
  turns[#turns + 1] = gateway
  listed_at[gateway] = version
end
local function keep_turns()
  if #turns == 0 then
    redis.call('HDEL', KEYS[1], 'turns', 'turn_until', 'turn_of')
  else
    local named = {}
    for i, gateway in ipairs(turns) do
      named[i] = gateway .. '@' .. listed_at[gateway]
    end
    redis.call('HSET', KEYS[1], 'turns', table.concat(named, ' '), 'turn_until', turn_until, 'turn_of', turn_of)
  end
end
-- A clock that was put back ends a turn, too.
if #turns > 0 and (now >= turn_until or now + TURN_MS < turn_until) then
  table.remove(turns, 1)
  turn_until, turn_of = now + TURN_MS, ''
  keep_turns()
end

-- Gateways before this one; none, if it is not on the list.
local function before(gateway)
  for i, other in ipairs(turns) do
    if other == gateway then
      return i - 1
    end
  end
end

-- What a script says, with the turn of whom it is said to, if it is on the list.
local function told(said, gateway)
  local place = before(gateway)
  said[#said + 1] = place and {place, listed_at[gateway]} or {}
  return said
end

local function take_turn(gateway)
  if not before(gateway) then
    turns[#turns + 1] = gateway
    listed_at[gateway] = head.version
    if #turns == 1 then
      turn_until, turn_of = now + TURN_MS, ''
    end
    keep_turns()
  end
end

local function end_turn(gateway)
  local place = before(gateway)
  if place then
    table.remove(turns, place + 1)
    if place == 0 then
      turn_until, turn_of = now + TURN_MS, ''
    end
    keep_turns()
  end
end

local function standing(status, core, definition, spread, entries)
  return {status, clock[1], clock[2], head.version or '0', head.generation or '0', head.line or '', head.base or '',
    head.run or '', run, head.wanted or '', core or '', definition or '', spread or '', entries or {}}
end

local function since(line, version)
  if not head.version then
    return standing('none')
  end
  if line == '' then
    return standing('load', redis.call('HGET', KEYS[1], 'core'), redis.call('HGET', KEYS[1], 'definition'),
      redis.call('HGET', KEYS[1], 'spread'))
  end
  version = tonumber(version)
  -- A line that another one went on from is the same up to where it branched off.
  if line ~= head.line and (line ~= head.from or version > tonumber(head.branch)) then
    return standing('other')
  end
  local latest = tonumber(head.version)
  if version > latest then
    return standing('behind')
  end
  if version == latest then
    return standing('same')
  end
  local length = redis.call('LLEN', KEYS[2])
  local first = version - (latest - length)
  if first < 0 then
    return standing('far')
  end
  local definition = tonumber(head.definition_version) > version and redis.call('HGET', KEYS[1], 'definition')
  local spread = tonumber(head.spread_version or '0') > version and redis.call('HGET', KEYS[1], 'spread')
  return standing('since', redis.call('HGET', KEYS[1], 'core'), definition, spread,
    redis.call('LRANGE', KEYS[2], first, -1))
end
