-- Renews one process's lease of a partition, which is one hash. Times are
-- milliseconds of a clock that follows the server's, but never jumps.
--
-- fleettest/law.go does the same in Go, for tests and simulations. Change both:
-- its tests compare them.
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
local half = lease / 2 -- about the time between two renewals
local capacity = number(3, 0, 1e9)
local seedRate = number(4, 0, 1e9)
local seedTokens = number(5, 0, 1e9)

local t = redis.call('TIME')
local server = t[1] * 1000 + t[2] / 1000

-- Fields that the script does not know are left alone.
local names = {
  'format', 'epoch', 'settings', 'pacing', 'pacingAt', 'now', 'server', 'leader', 'leaderUntil', 'rate', 'cut', 'gate',
  'accepted', 'throttled', 'acceptedBefore', 'throttledBefore', 'trips', 'tripsOf',
  'began', 'window', 'members', 'membersBefore', 'asking', 'askingBefore', 'granted', 'grantedBefore',
  'placed', 'placedBefore', 'places', 'placesBefore', 'holes', 'highest', 'mixed', 'order', 'left', 'turn',
  'tokens', 'held', 'heldBefore', 'heldBegan', 'heldWindow', 'said', 'saidAt',
}
local s = {}
for i, value in ipairs(redis.call('HMGET', key, unpack(names))) do
  if value then s[names[i]] = value end
end
if s.format and s.format ~= '1' then
  return redis.error_reply(string.format('awsretry: the key has the format %.40s, not 1', s.format))
end
if not s.format then
  s = { format = '1', rate = seedRate, tokens = math.min(seedTokens, capacity), server = server }
end
if not s.epoch or s.epoch == '' or #s.epoch > 200 then s.epoch = string.format('%s %.0f', id, server) end
local function get(name)
  local n = tonumber(s[name])
  if not n or n ~= n or n < 0 or n > 1e15 then return 0 end
  return n
end

-- The store may have lost the partition, or be back at an older copy. A process
-- that has newer values corrects it.
local known = a[29]
if known ~= '' and (known ~= s.epoch or number(15, 0, 1e15) > get('window')) then
  s.tokens = math.min(get('tokens'), seedTokens)
  if get('rate') == 0 then s.rate = seedRate end
end

-- The clock.
local elapsed = math.max(0, math.min(server - get('server'), 10 * lease))
local now = get('now') + elapsed
for name, limit in pairs({ gate = now + 86400000, cut = now, leaderUntil = now + lease, rate = 1e9 - 1, saidAt = server }) do
  if get(name) > limit then s[name] = limit end -- something else wrote it
end

-- Settings. The first ones stay as long as processes use them.
local settings, pacing = a[24], a[25] -- pacing is '' for a process that cannot lead
local silence = math.max(60000, 20 * lease) -- after it, they are gone; most outages of a store are shorter
local function other(name, theirs, ours)
  local text = 'awsretry: the processes that share the key have %s%.99s; this one has %.99s'
  return redis.error_reply(string.format(text, name, theirs, ours))
end
if s.settings and s.settings ~= settings and server - get('server') < silence then
  return other('', s.settings, settings)
end
s.settings = settings
if pacing ~= '' then
  if s.pacing and s.pacing ~= pacing and server - get('pacingAt') < silence then
    return other('the pacing ', s.pacing, pacing)
  end
  s.pacing, s.pacingAt = pacing, server
end

-- Sums.
local sums = { 'accepted', 'throttled', 'acceptedBefore', 'throttledBefore', 'trips', 'tripsOf' }
local stale = get('cut') > number(23, 0, 1e15) -- the process does not know of the last cut
for i, name in ipairs(sums) do
  if stale and i <= 2 then name = sums[i + 2] end
  s[name] = get(name) + number(5 + i, 0, 1e9)
end

-- The leader finds the rate.
local newRate = tonumber(a[12]) or -1
if s.leader == id and newRate >= 0 and newRate < 1e9 then
  if a[13] == '1' then
    s.cut = math.floor(now) -- whole, so that a process can repeat it
  end
  s.rate = newRate
end
if a[20] == '1' then
  if s.leader == id then s.leader = '' end
elseif pacing ~= '' and (not s.leader or s.leader == '' or s.leader == id or get('leaderUntil') < now) then
  s.leader = id
  s.leaderUntil = now + lease
end

-- What the processes have is summed over this window and the one before. A
-- process that renewed in neither no longer counts.
if not s.began or now - get('began') >= lease then
  -- If a process ends without giving up its place, the places are not 1, 2, 3
  -- and so on, which the sum of their squares shows. If that lasts, all get new
  -- places.
  local placed = get('placed') + get('placedBefore')
  local mixed = get('places') + get('placesBefore') ~= placed * (placed + 1) * (2 * placed + 1) / 6
  s.mixed = mixed and get('mixed') + 1 or 0
  if s.mixed >= 4 then
    s.mixed, s.holes, s.highest, s.order = 0, '', 0, (get('order') + 1) % 1000
  end
  local gone = now - get('began') >= 2 * lease
  for _, name in ipairs({ 'members', 'asking', 'granted', 'placed', 'places' }) do
    s[name .. 'Before'] = gone and 0 or get(name)
    s[name] = 0
  end
  s.began = now
  s.window = get('window') + 1
end
local function total(name) return get(name) + get(name .. 'Before') end

-- What this process had, which is part of the sums of the window in which it
-- renewed last.
local age = get('window') - number(15, 0, 1e15)
local share, part = number(16, 0, 1e9) / 1000, number(26, 0, 1)
local mostPlaces = 1e5
local placeInOrder = math.floor(number(27, 0, 1e9)) -- the place, and the order that it is of
local place = placeInOrder % mostPlaces
local function remove(name, n)
  if age == 1 then name = name .. 'Before' end
  if age == 0 or age == 1 then s[name] = math.max(get(name) - n, 0) end
end

-- The rounds. In each the processes that want more than their fair share send
-- one request, each at its place, so that all of them together send evenly.
local most = get('rate') / 1000 -- tokens in a millisecond
-- left is what was not granted, or granted and not used, minus what was granted
-- in excess while the shares changed: at most the tokens of an eighth of a lease.
-- It raises or lowers the rate until it is used up, in about a lease.
local saved = lease / 8 * most
local left = tonumber(s.left)
if not left or left ~= left then left = 0 end
s.left = left + elapsed * (most - total('granted')) + number(28, 0, 1e9)
s.left = math.max(math.min(s.left, saved), -saved)
local rate = most + s.left / lease
s.turn = (get('turn') + elapsed * rate / math.max(total('asking'), 1)) % 1

remove('members', 1)
remove('asking', part)
remove('granted', share)
remove('placed', math.min(place, 1))
remove('places', place * place)
if math.floor(placeInOrder / mostPlaces) ~= get('order') then place = 0 end
local leaving = a[20] == '1'
local members = total('members') + (leaving and 0 or 1)
local had = (age == 0 or age == 1) and share or 0
local level = 2 -- none
share, part = 0, 0
if not leaving then
  -- asking counts each process as the part of a fair share that it wants. A
  -- share grows only as far as the shares of all do not exceed the rate.
  local asking = total('asking')
  local fair = rate / (asking + 1)
  local least = rate / (10 * members) -- for a process that wants nothing yet
  local want = math.max(number(14, 0, 1e9) / half, least)
  share = math.max(math.min(want, fair, math.max(had, rate - total('granted')), most), least)
  part = 1
  if want < fair then part = math.min(math.max(want / rate, want * asking / (rate - want)), 1) end
  s.members = get('members') + 1
  s.asking = get('asking') + part
  s.granted = get('granted') + share
end

-- The place in the round. A place that is given up is reused.
local holes = s.holes or ''
if part == 1 then
  s.placed = get('placed') + 1
  local places = total('placed')
  local highest = math.min(get('highest'), places)
  if place == 0 or place > places then
    local left
    place, left = places, ''
    for hole in string.gmatch(holes, '%d+') do
      if place == places and tonumber(hole) < places then place = tonumber(hole) else left = left .. hole .. ' ' end
    end
    holes = left
    if place == places and highest < places then
      highest = highest + 1
      place = highest
    end
  end
  s.highest = highest
  s.places = get('places') + place * place
  if share > 0.9 * rate / math.max(total('asking'), 1) then level = (s.turn - place / places) % 1 end
elseif place > 0 then
  holes = place .. ' ' .. holes
  if #holes > 60 then holes = '' end -- a longer field makes the hash take much more memory
  place = 0
end
s.holes = holes

-- Retry tokens. Those that the processes have are summed over two windows, which
-- are so long that a process that renews rarely is in one of them.
local held = number(19, 0, 1e9)
if now - get('heldBegan') >= 12 * lease or get('heldWindow') == 0 then
  s.heldBefore = now - get('heldBegan') >= 24 * lease and 0 or get('held')
  s.held = 0
  s.heldBegan = now
  s.heldWindow = get('heldWindow') + 1
end
local heldAge = known == s.epoch and get('heldWindow') - number(30, 0, 1e15)
if heldAge == 0 then s.held = math.max(get('held') - number(31, 0, 1e9), 0) end
if heldAge == 1 then s.heldBefore = math.max(get('heldBefore') - number(31, 0, 1e9), 0) end
local room = math.max(0, capacity - get('held') - get('heldBefore') - held)
s.tokens = math.min(get('tokens') + number(17, 0, 1e9), room)
local tokens = math.min(number(18, 0, 1e9), math.floor(get('tokens')))
s.tokens = get('tokens') - tokens
if not leaving then s.held = get('held') + held + tokens end

-- A Retry-After.
s.gate = math.max(get('gate'), now + number(21, 0, 86400000))

-- What the service announced last of its limits, to any of the processes. The text
-- means something to them only.
if s.said and #s.said > 4096 then s.said = nil end
local said, saidAt = a[32] or '', math.max(0, server - number(33, 0, 1e9)) -- of the server's clock, also after a pause
if said ~= '' and #said <= 4096 and saidAt >= get('saidAt') then s.said, s.saidAt = said, saidAt end

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
  s.epoch, text(now), text(get('window')), text(get('rate')), text(math.min(share * 1000, get('rate'))), text(members),
  s.leader == id and '1' or '0', text(get('cut')), text(tokens), text(get('tokens')),
  text(math.max(0, get('gate') - now)),
  text(get('accepted')), text(get('throttled')), text(get('acceptedBefore')), text(get('throttledBefore')),
  text(get('trips')), text(get('tripsOf')),
  text(part), text(place > 0 and place + get('order') * mostPlaces or 0), text(level), text(get('heldWindow')),
  s.said or '', text(s.said and math.max(0, server - get('saidAt')) or 0),
}
