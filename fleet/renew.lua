-- Renews one process's lease of a partition, which is one hash. Times are
-- milliseconds of a clock that follows the server's, but never jumps.
--
-- fleettest/law.go does the same in Go, for tests and simulations. Change both:
-- its tests compare them.
--
-- KEYS[1]  the partition
-- ARGV[1]  a Request, see internal/protocol, as JSON; a Reply is returned

local key, a = KEYS[1], cjson.decode(ARGV[1])
local lease = a.lease
local t = redis.call('TIME')
local server = t[1] * 1000 + t[2] / 1000

-- Fields that the script does not know are left alone.
local texts = { 'format', 'epoch', 'other', 'slotsOf', 'settings', 'pacing', 'leader', 'said' }
local numbers = {
  'now', 'server', 'renewals', 'pacingAt', 'next', 'leaderUntil', 'rate', 'limit', 'trip', 'gate', 'saidAt',
  'sent', 'throttled', 'trips', 'tripsOf', 'members', 'membersBefore', 'asking', 'askingBefore', 'granted', 'grantedBefore', 'left',
  'most', 'mostBefore', 'opens', 'leased', 'slotsAt',
  'tokens', 'spare', 'traffic', 'held', 'heldBefore',
}
local s, valid = {}, true
for i, text in ipairs(redis.call('HMGET', key, unpack(texts))) do s[texts[i]] = text or '' end
for i, text in ipairs(redis.call('HMGET', key, unpack(numbers))) do
  local n = tonumber(text or 0)
  if not n or not (n >= (numbers[i] == 'left' and -8e12 or 0) and n <= 8e12) then n, valid = 0, false end
  s[numbers[i]] = n
end

-- Settings. The first process's apply as long as processes use them.
local format, silence = '5', math.max(60000, 20 * lease) -- most outages of a store are shorter
for _, name in ipairs({ 'format', 'settings', 'pacing' }) do
  local ours, at = a[name] or format, name == 'pacing' and s.pacingAt or s.server
  if ours ~= '' and s[name] ~= '' and s[name] ~= ours and math.abs(server - at) < silence then
    return { cjson.encode({ differs = name, theirs = string.sub(s[name], 1, 1000) }) }
  end
end

-- The clock. The key is re-created if its values make no sense, or if the store was
-- restored from a copy that is older than what the process knows.
local elapsed = math.max(0, math.min(server - s.server, 10 * lease))
local before, now = s.now, s.now + elapsed
if not valid or s.format ~= format or s.epoch == '' or #s.epoch > 200 or s.epoch == a.epoch and (before < a.now or s.renewals < a.renewals)
    or now > 1e12 or s.leaderUntil > now + 60000
    or s.gate > now + 86400000 or math.max(s.rate, s.limit, s.tokens, s.spare, s.traffic) > 1e9 or s.members + s.membersBefore > 1e5 then
  for _, name in ipairs(numbers) do s[name] = 0 end
  s.format, s.epoch, s.pacing, s.leader, s.said, s.slotsOf = format, string.format('%s %.0f', a.id, server), '', '', '', ''
  s.rate, s.limit, s.tokens, elapsed, now = a.seedRate, a.seedRate, math.min(a.seedTokens, a.capacity), 0, 0
  before = 0
  s.opens, s.leased, s.other = lease, 2 * lease, a.epoch -- leases of the previous key end until then
end
s.now, s.server, s.settings, s.saidAt = now, server, a.settings, math.min(s.saidAt, server)
s.renewals = s.renewals + 1
if a.pacing ~= '' then s.pacing, s.pacingAt = a.pacing, server end

local same = s.epoch == a.epoch
if not same and a.epoch ~= '' then -- the process knows what the store has lost
  s.tokens = math.min(s.tokens, a.seedTokens)
  if s.rate == 0 then s.rate, s.limit = a.seedRate, a.seedRate end
end

-- Sums.
local sums = { 'sent', 'throttled', 'trips', 'tripsOf' }
for _, name in ipairs(sums) do s[name] = s[name] + a[name] end

-- The leader finds the rate from the sums since its last renewal.
if s.leader == a.id and a.rate >= 0 then s.rate, s.limit, s.trip = a.rate, a.limit, a.trip end
if a.leaving then
  if s.leader == a.id then s.leader = '' end
elseif a.pacing ~= '' and (s.leader == '' or s.leader == a.id or s.leaderUntil < now) then
  s.leader, s.leaderUntil = a.id, now + lease
end
local reply = { leader = s.leader == a.id }
for _, name in ipairs(sums) do
  reply[name] = reply.leader and s[name] or 0
  s[name] = s[name] - reply[name]
end

-- What the processes have is summed over this window of the clock and the one
-- before. A process that renewed in neither no longer counts. The windows of the
-- retry tokens are long enough for a process that renews rarely to be in one.
local windows = { members = lease, asking = lease, granted = lease, most = lease, held = 12 * lease }
local function passed(name, since) return math.floor(now / windows[name]) - math.floor(since / windows[name]) end
for name in pairs(windows) do
  local n = passed(name, before)
  if n > 0 then s[name .. 'Before'], s[name] = n == 1 and s[name] or 0, 0 end
end
local function total(name) return s[name] + s[name .. 'Before'] end

-- The last values of this process are in the sums of the window in which it last
-- renewed.
local function remove(name, n)
  local age = same and passed(name, a.now)
  if age == 1 then name = name .. 'Before' end
  if age == 0 or age == 1 then s[name] = math.max(s[name] - n, 0) end
end

-- Slots. The next free one is at s.next, so each is granted once, whatever the
-- processes want.
local pace, slots, at, every, credit = s.rate, 0, 0, 0, 0
local maxRate = a.maxRate -- the lowest of all
local asker = a.id .. ' ' .. string.format('%.0f', a.renewals)
if maxRate > 0 then
  if not a.leaving then s.most = s.most > 0 and math.min(s.most, maxRate) or maxRate end
  if s.most > 0 then maxRate = math.min(s.most, maxRate) end
  if s.mostBefore > 0 then maxRate = math.min(s.mostBefore, maxRate) end
  pace = s.rate > 0 and math.min(s.rate, maxRate) or maxRate
  every = 1000 / pace

  -- The key is closed while processes may send in slots that it did not grant, or
  -- without a lease: for a lease if it is new or an older copy, and for half of one
  -- if no lease was left, until all have tried again. They continue with what they
  -- have until it opens, all at the same time.
  local lapsed = not same or a.ends < now
  local copied = not same and a.epoch ~= '' and a.epoch ~= s.other
  if copied or lapsed and s.leased < now then
    s.opens, s.leased, s.other = now + lease / (copied and 1 or 2), now + 2 * lease, a.epoch
  elseif not lapsed then
    s.leased = math.max(s.leased, now + lease)
  end
  s.opens, s.leased = math.min(s.opens, now + lease), math.min(s.leased, now + 2 * lease)
  if s.opens > now then -- a process alone may have sent one more than its part of the last second
    s.next = math.max(s.next, s.opens + math.min(total('members') * every, lease) / 2)
  end
  -- The last slots were granted to this very renewal, whose reply was lost.
  if s.slotsOf == asker then s.next = s.slotsAt end
  s.next = math.min(math.max(s.next, now + a.away), now + 2 * lease + every)
end

-- left is what was not granted, or granted and not used, minus what was granted
-- in excess while the shares changed: at most the tokens of an eighth of a lease.
-- It raises or lowers the rate until it is used up, in about a lease.
-- With slots, it keeps the next free slot three eighths of a lease ahead.
local most = pace / 1000 -- tokens in a millisecond
local saved = lease / 8 * most
s.left = s.left + elapsed * (most - total('granted')) + a.unused
if a.maxRate > 0 then s.left = (now + lease * 3 / 8 + every - s.next) * most end
s.left = math.max(math.min(s.left, saved), -saved)
local rate = most + s.left / lease

local had = same and passed('granted', a.now) <= 1 and a.share / 1000 or 0
remove('members', 1)
remove('asking', a.part)
remove('granted', had)
local share, part, members = 0, 0, total('members')
if not a.leaving then
  -- asking counts each process as the part of a fair share that it wants. A
  -- share grows only as far as the shares of all do not exceed the rate.
  members = members + 1
  local asking = total('asking')
  local fair = rate / (asking + 1)
  local least = rate / (10 * members) -- for a process that wants nothing yet
  local want = math.max(a.wanted / (lease / 2), least)
  share = math.max(math.min(want, fair, math.max(had, rate - total('granted')), most), least)
  part = 1
  if want < fair then part = math.min(math.max(want / rate, want * asking / (rate - want)), 1) end
  s.members, s.asking, s.granted = s.members + 1, s.asking + part, s.granted + share
  if a.maxRate > 0 then
    -- What the process was granted too little of, or what nobody asked for.
    local own = math.min(a.credit + share * a.since, math.max(share * lease, 1))
    -- At least one slot is within a lease, however low the rate is.
    local function before(time) return math.ceil((time - s.next) / every) end
    local needed = math.floor(a.wanted)
    local offered = want < fair and needed or math.max(math.floor(own), before(now + lease / 4))
    slots = s.opens > now and 0 or math.max(math.min(needed, offered, before(now + lease)), 0)
    if slots > 0 then s.slotsOf, s.slotsAt = asker, s.next end
    at, credit = s.next - now, math.max(own - slots, 0)
    s.next = s.next + slots * every
  end
end

-- Retry tokens.
remove('held', a.counted)
s.traffic = s.traffic * math.max(0, 1 - elapsed / 60000) + math.max(a.traffic, 0) -- of about a minute
local capacity = math.max(a.traffic < 0 and a.capacity or math.min(s.traffic, members * a.capacity), members * a.perCall)
local room = math.max(0, capacity - total('held') - a.held)
s.tokens = math.min(s.tokens + a.returned, room)
local tokens = math.min(a.asked, math.floor(s.tokens))
s.tokens = s.tokens - tokens
-- Spare tokens are those that the processes would begin with if each were alone.
-- They are only for retries after throttling, which shows that the service is up.
s.spare = math.min(s.spare + a.spare, members * a.capacity)
local spared = math.min(a.asked - tokens, a.spared, math.floor(s.spare))
s.spare, tokens = s.spare - spared, tokens + spared
if not a.leaving then s.held = s.held + a.held + tokens end

-- A Retry-After, and the limits that the service last announced to any process.
-- Only the processes can read the text.
s.gate = math.max(s.gate, now + a.gate)
local saidAt = math.max(0, server - a.saidAge) -- on the server's clock, also after a pause
if a.said ~= '' and saidAt >= s.saidAt then s.said, s.saidAt = a.said, saidAt end
if #s.said > 4096 then s.said = '' end

local fields = {}
for _, name in ipairs(texts) do
  fields[#fields + 1], fields[#fields + 2] = name, s[name]
end
for _, name in ipairs(numbers) do
  fields[#fields + 1], fields[#fields + 2] = name, string.format('%.17g', s[name])
end
redis.call('HSET', key, unpack(fields))
-- A partition that was never throttled and has all its retry tokens has nothing to
-- remember, and there may be many of them.
local known = s.rate > 0 or s.gate > now or s.said ~= '' or s.tokens + total('held') < math.min(capacity, a.capacity)
redis.call('PEXPIRE', key, known and a.expiry or math.min(a.expiry, silence))

reply.epoch, reply.now, reply.renewals = s.epoch, math.floor(now), s.renewals
reply.rate, reply.limit, reply.trip = s.rate, s.limit, s.trip
reply.share, reply.part = math.min(share * 1000, pace), part
reply.slots, reply.at, reply.every, reply.credit = slots, at, every, credit
reply.maxRate, reply.opens = maxRate, a.maxRate > 0 and math.max(s.opens - now, 0) or 0
reply.members = members
reply.tokens, reply.left, reply.spare, reply.gate = tokens, s.tokens, s.spare, s.gate - now
reply.said, reply.saidAge = s.said, s.said == '' and 0 or server - s.saidAt
return { cjson.encode(reply) }
