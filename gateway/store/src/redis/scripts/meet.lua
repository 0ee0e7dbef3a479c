-- Who shares these servers, so that a gateway that does not fit is found out when it starts.
--
-- ARGV: 1 this gateway's name and keys, 2 the name of its checkpoint or '', 3 'stay' if it stays among them, or ''.
-- Answers with the name of the checkpoint that there is, all who were here lately, and how long that is in milliseconds.
-- Reads TIME. Reads and writes KEYS[1] (hash: a gateway's name and keys → when it was here last, in Unix milliseconds), KEYS[2] (string:
-- the name of the checkpoint).
local LATELY_MS = 15000
local clock = redis.call('TIME')
local now = tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000)
local stays = ARGV[3] == 'stay'
if stays then
  redis.call('HSET', KEYS[1], ARGV[1], now)
  if ARGV[2] ~= '' and redis.call('EXISTS', KEYS[2]) == 0 then
    redis.call('SET', KEYS[2], ARGV[2])
  end
end
local found, here = redis.call('HGETALL', KEYS[1]), {}
for i = 1, #found, 2 do
  -- A clock that was put back makes nobody stay for longer.
  if math.abs(now - tonumber(found[i + 1])) < LATELY_MS then
    here[#here + 1] = found[i]
  elseif stays then
    redis.call('HDEL', KEYS[1], found[i])
  end
end
return {redis.call('GET', KEYS[2]) or '', here, LATELY_MS}
