-- A token bucket that may be drawn below zero. The caller waits until its token
-- has come back, so that a request costs one round trip.
--
-- KEYS[1]  the bucket
-- ARGV     tokens per second, capacity
-- Returns how long to wait, in milliseconds.

local rate, capacity = ARGV[1] / 1000, tonumber(ARGV[2])
local t = redis.call('TIME')
local now = t[1] * 1000 + t[2] / 1000
local bucket = redis.call('HMGET', KEYS[1], 'tokens', 'at')
local passed = math.max(0, now - (tonumber(bucket[2]) or now))
local tokens = math.min(capacity, (tonumber(bucket[1]) or capacity) + passed * rate) - 1
redis.call('HSET', KEYS[1], 'tokens', tokens, 'at', now)
redis.call('PEXPIRE', KEYS[1], math.ceil((capacity - tokens) / rate) + 1000)
return math.ceil(math.max(0, -tokens) / rate)
