-- Begins every script. What has been committed since a gateway was last up to date.
--
-- Reads KEYS[1], the head (hash): version, line, from, branch, run, generation, base, core, definition,
-- definition_version; KEYS[2], the log (list of entries up to the version, the oldest may be gone); TIME; INFO server.
local head = {}
do
  local names = {'version', 'line', 'from', 'branch', 'run', 'generation', 'base', 'definition_version'}
  local values = redis.call('HMGET', KEYS[1], unpack(names))
  for i, name in ipairs(names) do
    head[name] = values[i]
  end
end
local clock = redis.call('TIME')
local run = string.match(redis.call('INFO', 'server'), 'run_id:(%x+)')

local function standing(status, core, definition, entries)
  return {status, clock[1], clock[2], head.version or '0', head.generation or '0', head.line or '', head.base or '',
    head.run or '', run, core or '', definition or '', entries or {}}
end

local function since(line, version)
  if not head.version then
    return standing('none')
  end
  if line == '' then
    return standing('load', redis.call('HGET', KEYS[1], 'core'), redis.call('HGET', KEYS[1], 'definition'))
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
  return standing('since', redis.call('HGET', KEYS[1], 'core'), definition, redis.call('LRANGE', KEYS[2], first, -1))
end
