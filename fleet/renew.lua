-- Renews one process's lease of a partition. All of the partition is in one
-- hash. Times are milliseconds of a clock that follows the server's, but never
-- jumps.
--
-- KEYS[1]  the partition
-- ARGV     see request in script.go; the reply is an array, see reply there

local key, a = KEYS[1], ARGV
local id = a[1]
local function number(i, low, high)
  local n = tonumber(a[i])
  if not n or n ~= n or n < low then return low end
  if n > high then return high end
  return n
end

local lease = number(2, 10, 60000)
local window = lease / 2
local capacity = number(3, 0, 1e9)
local seedRate = number(4, 0, 1e9)
local seedTokens = number(5, 0, 1e9)

local t = redis.call('TIME')
local server = t[1] * 1000 + math.floor(t[2] / 1000)

local format = redis.call('HGET', key, 'format')
if format and format ~= '1' then
  return redis.error_reply('awsretry: the key ' .. key .. ' has the format ' .. format .. ', not 1')
end
local s = {}
if format then
  local all = redis.call('HGETALL', key)
  for i = 1, #all, 2 do s[all[i]] = all[i + 1] end
else
  s = { format = '1', epoch = id .. server, rate = seedRate, tokens = math.min(seedTokens, capacity), server = server }
end
local function get(name)
  local n = tonumber(s[name])
  if not n or n ~= n or n < 0 or n > 1e15 then return 0 end
  return n
end

-- A process that knows the partition from before the store lost it knows better
-- than the process that made it again.
local known = a[26]
if known ~= '' and known ~= s.epoch then
  s.tokens = math.min(get('tokens'), seedTokens)
  if get('rate') == 0 then s.rate = seedRate end
end

-- The clock.
local now = get('now') + math.max(0, math.min(server - get('server'), 10 * lease))

-- Settings. Those of the processes that are there stay.
local settings, pacing = a[24], a[25] -- pacing is '' for a process that cannot lead
local function other(name, theirs, ours)
  return redis.error_reply('awsretry: the processes that share ' .. key .. ' have ' .. name .. theirs ..
    '; this one has ' .. ours)
end
if s.settings and s.settings ~= settings and math.abs(server - get('server')) < 10 * lease then
  return other('', s.settings, settings)
end
s.settings = settings
if pacing ~= '' and s.pacing and s.pacing ~= pacing and s.leader and s.leader ~= '' and s.leader ~= id
    and get('leaderUntil') >= now then
  return other('the pacing ', s.pacing, pacing)
end

-- Sums.
local names = { 'accepted', 'throttled', 'acceptedBefore', 'throttledBefore', 'trips', 'tripsOf' }
local stale = get('cut') > number(23, 0, 1e15) -- the process has not heard of the last cut
for i, name in ipairs(names) do
  if stale and i <= 2 then name = names[i + 2] end
  s[name] = get(name) + number(5 + i, 0, 1e9)
end

-- The leader finds the rate.
local newRate = tonumber(a[12]) or -1
if s.leader == id and newRate >= 0 and newRate < 1e9 then
  if a[13] == '1' then
    s.cut = now
    s.left = 0
  end
  s.rate = newRate
end
local leaving = a[20] == '1'
if leaving then
  if s.leader == id then s.leader = '' end
elseif pacing ~= '' and (not s.leader or s.leader == '' or s.leader == id or get('leaderUntil') < now) then
  s.leader = id
  s.pacing = pacing
  s.leaderUntil = now + lease
end

-- What may be granted comes back with time, as in a token bucket.
local rate = get('rate') / 1000 -- tokens in a millisecond
s.left = math.min(get('left') + rate * (now - get('leftAt')), math.max(1.5 * rate * window, 1))
s.leftAt = now

-- A new window: what was asked for in the last one decides how much each
-- process may have at most.
if not s.began or now - get('began') >= window then
  local asked, fair = get('asked'), get('fair')
  if fair <= 0 or asked <= 0 then fair = rate else fair = fair * rate / asked end
  s.membersBefore = get('members')
  s.fair = math.max(math.min(fair, rate), rate / (4 * math.max(get('members'), 1)))
  s.asked, s.members = 0, 0
  s.began = now
  s.window = get('window') + 1
end

local members = math.max(get('members'), get('membersBefore'), 1)

-- The share of the rate, as far as there is something to grant for the time
-- since the last renewal. A process that wants nothing may still begin.
local wanted = number(14, 0, 1e9)
local lastWindow, last = number(15, 0, 1e15), number(16, 0, 1e15)
local share = 0
if not leaving then
  share = math.min(math.max(wanted / window, rate / (10 * members)), get('fair'))
  if lastWindow ~= get('window') then
    s.members = get('members') + 1
    s.asked = get('asked') + share
  end
  local passed = window
  if last > 0 then passed = math.max(1, math.min(now - last, 1.5 * window)) end
  share = math.max(math.min(share, get('left') / passed), rate / (10 * members))
  s.left = get('left') - share * passed
end

-- Retry tokens. Those that the processes hold are summed over two windows. These
-- are so long that a process which renews seldom is in one of them.
local held = number(19, 0, 1e9)
if now - get('heldBegan') >= 12 * lease or get('heldWindow') == 0 then
  s.heldBefore = now - get('heldBegan') >= 24 * lease and 0 or get('held')
  s.held = 0
  s.heldBegan = now
  s.heldWindow = get('heldWindow') + 1
end
local heldAge = get('heldWindow') - number(27, 0, 1e15)
if heldAge == 0 then s.held = math.max(get('held') - number(28, 0, 1e9), 0) end
if heldAge == 1 then s.heldBefore = math.max(get('heldBefore') - number(28, 0, 1e9), 0) end
local room = math.max(0, capacity - get('held') - get('heldBefore') - held)
s.tokens = math.min(get('tokens') + number(17, 0, 1e9), room)
local tokens = math.min(number(18, 0, 1e9), math.floor(get('tokens')))
s.tokens = get('tokens') - tokens
if not leaving then s.held = get('held') + held + tokens end

-- A Retry-After.
s.gate = math.max(get('gate'), now + number(21, 0, 86400000))

s.now, s.server = now, server
local fields = {}
for name, value in pairs(s) do
  fields[#fields + 1] = name
  fields[#fields + 1] = type(value) == 'number' and string.format('%.17g', value) or value
end
redis.call('HSET', key, unpack(fields))
redis.call('PEXPIRE', key, number(22, 1000, 604800000))

local function text(n) return string.format('%.17g', n) end
return {
  s.epoch, text(now), text(get('window')), text(get('rate')), text(share * 1000), text(members),
  s.leader == id and '1' or '0', text(get('cut')), text(tokens), text(get('tokens')),
  text(math.max(0, get('gate') - now)),
  text(get('accepted')), text(get('throttled')), text(get('acceptedBefore')), text(get('throttledBefore')),
  text(get('trips')), text(get('tripsOf')),
  text(get('heldWindow')),
}
