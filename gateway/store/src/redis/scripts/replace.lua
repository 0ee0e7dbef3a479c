-- Puts a sale in place whose joins and admissions have been written under a base of their own: a new one, or one that the
-- server has lost a part of. Only if the head is what the gateway last saw; otherwise writes nothing and says what is.
--
-- ARGV: 1 line and 2 version of the head that is replaced ('' and 0: there is none), 3 entry for the log, 4 core,
-- 5 definition, 6 line, 7 generation, 8 base, 9 version, 10 line and 11 version that it went on from ('': from none, it lacks
-- something that others may know), 12 which joins are in slots of their own, and what the copies are.
-- Writes KEYS[1], the head; KEYS[2], the log.
if (head.line or '') ~= ARGV[1] or (head.version or '0') ~= ARGV[2] then
  return since(ARGV[10], ARGV[11])
end
redis.call('DEL', KEYS[1], KEYS[2])
redis.call('RPUSH', KEYS[2], ARGV[3])
redis.call('HSET', KEYS[1], 'format', FORMAT, 'version', ARGV[9], 'line', ARGV[6], 'from', ARGV[10], 'branch', ARGV[11], 'run', run,
  'generation', ARGV[7], 'base', ARGV[8], 'core', ARGV[4], 'definition', ARGV[5], 'definition_version', ARGV[9],
  'log_bytes', #ARGV[3], 'spread', ARGV[12], 'spread_version', ARGV[9])
return standing('done')
