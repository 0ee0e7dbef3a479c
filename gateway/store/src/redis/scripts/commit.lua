-- Commits a batch, if nobody has committed since it was run, it is nobody else's turn, and the server is the one that took
-- the last commit. Otherwise writes nothing but the gateway's name for a turn, and says what it has missed.
--
-- ARGV: 1 line and 2 version that the batch was run on, 3 entry for the log, 4 core, 5 definition or '', 6 and 7 line and
-- generation that begin with this commit or '', 8 the run id of the server in the head, 9 entries and 10 bytes that the
-- log keeps at most, 11 the gateway's name, 12 which joins are in slots of their own, and where, from this commit on, or '',
-- 13... writes:
--   w KEY OFFSET BYTES   into the string KEYS[KEY]        h KEY FIELD VALUE   into the hash KEYS[KEY]
--   s KEY                the string is full: kept in no more memory than it takes
--   x KEY                removed
-- Writes KEYS[1], the head; KEYS[2], the log; KEYS[3...], joins and admissions.
local begins = ARGV[6] ~= ''
if begins then
  turns = {}
elseif head.version and head.line == ARGV[1] and head.run == run
  and (head.version ~= ARGV[2] or (#turns > 0 and turns[1] ~= ARGV[11])) then
  take_turn(ARGV[11])
  return told(since(ARGV[1], ARGV[2]), ARGV[11])
end
if not head.version or head.line ~= ARGV[1] or head.version ~= ARGV[2] or head.run ~= ARGV[8]
  or (head.run ~= run and not begins) then
  return since(ARGV[1], ARGV[2])
end
-- The head comes last: what an error leaves behind before it belongs to no version.
local i = 13
while i <= #ARGV do
  local what, key = ARGV[i], KEYS[tonumber(ARGV[i + 1])]
  if what == 'w' then
    redis.call('SETRANGE', key, ARGV[i + 2], ARGV[i + 3])
    i = i + 4
  elseif what == 'h' then
    redis.call('HSET', key, ARGV[i + 2], ARGV[i + 3])
    i = i + 4
  elseif what == 's' then
    redis.call('SET', key, redis.call('GET', key))
    i = i + 2
  else
    redis.call('UNLINK', key)
    i = i + 2
  end
end
local version = tonumber(head.version) + 1
local fields = {'format', FORMAT, 'version', version, 'core', ARGV[4]}
local function set(name, value)
  fields[#fields + 1] = name
  fields[#fields + 1] = value
end
if ARGV[5] ~= '' then
  set('definition', ARGV[5])
  set('definition_version', version)
end
if ARGV[12] ~= '' then
  set('spread', ARGV[12])
  set('spread_version', version)
  redis.call('HDEL', KEYS[1], 'wanted')
end
if begins then
  set('from', head.line)
  set('branch', head.version)
  set('line', ARGV[6])
  set('generation', ARGV[7])
  set('run', run)
end
redis.call('HSET', KEYS[1], unpack(fields))
if begins then
  keep_turns()
else
  end_turn(ARGV[11])
end
redis.call('RPUSH', KEYS[2], ARGV[3])
local bytes = redis.call('HINCRBY', KEYS[1], 'log_bytes', #ARGV[3])
local length = redis.call('LLEN', KEYS[2])
while length > tonumber(ARGV[9]) or (bytes > tonumber(ARGV[10]) and length > 1) do
  bytes = redis.call('HINCRBY', KEYS[1], 'log_bytes', -#redis.call('LPOP', KEYS[2]))
  length = length - 1
end
return standing('done')
