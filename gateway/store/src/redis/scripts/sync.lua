-- Says what a gateway has missed. Writes nothing.
-- ARGV: 1 line and 2 version it has ('' and 0: none).
return since(ARGV[1], ARGV[2])
