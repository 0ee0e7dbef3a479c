-- Says what a gateway has missed, and how many are before it where it waits for its turn, and since which version it does.
-- ARGV: 1 line and 2 version it has ('' and 0: none), 3 its name, 4 what it wants: 'wait' for its turn, if there are turns;
-- 'end' its turn, having nothing to commit; 'want' the copies that ARGV[5] lists, which are not where they should be; or ''.
-- Writes KEYS[1], the head: wanted.
if ARGV[4] == 'wait' and #turns > 0 then
  take_turn(ARGV[3])
elseif ARGV[4] == 'end' then
  end_turn(ARGV[3])
elseif ARGV[4] == 'want' and head.version then
  redis.call('HSET', KEYS[1], 'wanted', ARGV[5])
end
if before(ARGV[3]) == 0 and turn_of ~= ARGV[3] then
  -- It is here, and has its time from now on, once: who comes again and again and commits nothing holds nobody up.
  turn_until, turn_of = now + TURN_MS, ARGV[3]
  keep_turns()
end
return told(since(ARGV[1], ARGV[2]), ARGV[3])
