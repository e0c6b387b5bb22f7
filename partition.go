package awsretry

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"iter"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"example.com/awsretry/internal/gate"
	"example.com/awsretry/internal/sharing"
)

const defaultMaxPartitions = 1024

// A partition is what the requests to one service, or to one part of it, share.
type partition struct {
	name    string
	host    string // as the first request's URL spells it; "" where the name is not a host's
	quota   *Quota
	limiter *RateLimiter // nil except in adaptive mode
	gate    gate.Gate    // for Transport.ShareRetryAfter
	share   *localShare  // nil where no other process shares the buckets

	calls atomic.Int64 // how many hold the partition, plus watched; or dropped

	joins bool          // the next request that finds it calls joined; guarded by the table's mutex
	in    *list.List    // of the table; nil once dropped; guarded by the table's mutex
	place *list.Element // in that list; guarded by the table's mutex
}

const (
	dropped = -1      // the table does not have the partition any more
	watched = 1 << 62 // the table is to hear when no call holds the partition
)

// hold makes the table keep p until release. It returns false if the table has
// dropped p.
func (p *partition) hold() bool {
	for {
		calls := p.calls.Load()
		if calls == dropped {
			return false
		}
		if p.calls.CompareAndSwap(calls, calls+1) {
			return true
		}
	}
}

// release ends a hold. It reports whether the table is to hear of that.
func (p *partition) release() (tell bool) { return p.calls.Add(-1) == watched }

// drop makes hold fail. It returns false if a call holds p: then the last
// release reports true.
func (p *partition) drop() bool {
	for {
		calls := p.calls.Load()
		next := calls | watched
		if next == watched { // no call holds p
			next = dropped
		}
		if p.calls.CompareAndSwap(calls, next) {
			return next == dropped
		}
	}
}

// unwatch undoes the watch that drop began. It returns false if a call holds p.
func (p *partition) unwatch() bool { return p.calls.CompareAndSwap(watched, 0) }

// fresh reports whether p is as good as new: its retry token bucket is full,
// and nothing holds back its requests. Of a bucket that many processes share,
// this one has the tokens of a retry.
func (p *partition) fresh() bool {
	full := p.quota.full()
	if p.share.granted() != nil {
		full = p.quota.Tokens() >= min(p.share.cost, p.share.capacity)
	}
	return full && !p.limits()
}

// limits reports whether a throttling response or a Retry-After holds back the
// requests of p.
func (p *partition) limits() bool {
	if p.limiter != nil && p.limiter.limits() {
		return true
	}
	if p.gate.Load() == nil {
		return false
	}
	return p.gate.ClosedFor(time.Now()) > 0
}

// A partitionTable has a limited number of partitions, and makes those that are
// asked for.
//
// When it is full, a new partition replaces the least recently used fresh one,
// or the least recently used of all. The new one takes over the retry token
// bucket of the old one, however empty, and gets a limiter of its own. So there
// are never more buckets than the table's size, and neither the outages of many
// services nor made-up names lead to more retries than these buckets pay for.
// Where many processes share the buckets, the new one has a bucket of its own
// that begins with what the old one had left.
//
// Where calls may wait in line, each call holds its partition. A partition that
// is held is not replaced: calls that come later would overtake its line in the
// new one. While all are held, a new partition is an extra one: it shares the
// bucket of one of them, and is dropped when no call holds it.
type partitionTable struct {
	size       int
	newQuota   func() *Quota
	newLimiter func() *RateLimiter          // returns nil except in adaptive mode
	hasLines   bool                         // calls may wait in line
	newShare   func(*partition) *localShare // of a new partition; nil where no other process shares the buckets
	joined     func(sharing.Share)          // called without t.mu for each new share, by the request that uses it first

	// recent was used last. Requests that all use one partition find it without
	// the lock.
	recent atomic.Pointer[partition]

	mu     sync.Mutex // guards the fields below
	byName map[string]*partition

	// Each partition is in one of these lists. The most recently
	// used is in front.
	used     list.List
	notFresh list.List // were not fresh when they were last looked at, and not used since
	held     list.List // were held when they were last looked at; watched
	extra    list.List // watched

	looks int // at partitions that might be dropped, for tests
}

// get returns the named partition, and makes it if there is none. host is the
// name as a request's URL spells it, or "" where the name is not a host's. The
// caller must call release.
func (t *partitionTable) get(name, host string) *partition {
	name = boundedName(name)
	if p := t.recent.Load(); p != nil && p.name == name && t.hold(p) {
		return p
	}
	p, joins := t.findOrAdd(name, host)
	if joins {
		t.join(p)
	}
	return p
}

// join calls joined for a partition that is held. If that panics, the partition
// is released, and the next request calls it again.
func (t *partitionTable) join(p *partition) {
	joined := false
	defer func() {
		if !joined {
			t.mu.Lock()
			p.joins = true
			t.recent.CompareAndSwap(p, nil)
			t.mu.Unlock()
			t.release(p)
		}
	}()
	t.joined(p.share)
	joined = true
}

// findOrAdd is get for a name that was not used last. It reports whether the
// partition has yet to join.
func (t *partitionTable) findOrAdd(name, host string) (p *partition, joins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	p = t.byName[name]
	switch {
	case p == nil:
		p = t.add(name, host)
	case p.in == &t.notFresh:
		t.move(p, &t.used)
	default:
		t.move(p, p.in)
	}
	t.hold(p) // succeeds: p could be dropped with t.mu held only
	t.recent.Store(p)
	joins, p.joins = p.joins, false
	return p, joins
}

// hold makes the table keep p until release. It returns false if p was dropped.
func (t *partitionTable) hold(p *partition) bool { return !t.hasLines || p.hold() }

// release ends the hold on a partition that get returned.
func (t *partitionTable) release(p *partition) {
	if t.hasLines && p.release() {
		t.released(p)
	}
}

// released puts a watched partition in its place after the last release.
func (t *partitionTable) released(p *partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch p.in {
	case &t.held:
		if p.unwatch() {
			t.move(p, &t.used)
		}
	case &t.extra:
		if !t.tryDrop(p) || !p.limits() {
			return
		}
		// The partition has to limit the next requests too.
		if old := t.dropOne(); old != nil {
			next := &partition{name: p.name, host: p.host, limiter: p.limiter}
			next.gate.Store(p.gate.Load())
			t.putFor(old, next)
		}
	}
}

// add makes a partition. It requires that t.mu is held.
func (t *partitionTable) add(name, host string) *partition {
	p := &partition{name: strings.Clone(name), limiter: t.newLimiter()}
	if len(host) <= maxPartitionName {
		p.host = strings.Clone(host)
	}
	if len(t.byName) < t.size {
		p.quota = t.newQuota()
		t.putShared(p)
	} else if old := t.dropOne(); old != nil {
		t.putFor(old, p)
	} else {
		lender := t.held.Back().Value.(*partition)
		t.move(lender, &t.held) // another one lends its bucket next
		p.quota = lender.quota
		p.calls.Store(watched)
		t.put(p, &t.extra)
	}
	return p
}

// dropOne drops a partition that another one replaces, and returns it. It
// returns nil if all are held. It requires that t.mu is held.
//
// A flood of new names costs amortized constant time for each: a partition that
// stays moves to a list where it is passed over until it is used or
// released, except for a few that may have become fresh meanwhile.
func (t *partitionTable) dropOne() *partition {
	const again = 8
	looks := t.looks
	for p := range t.oldestFirst(&t.notFresh) {
		if p.fresh() && t.tryDrop(p) {
			return p
		}
		if t.looks == looks+again {
			break
		}
	}
	for p := range t.oldestFirst(&t.used) {
		if !p.fresh() {
			t.move(p, &t.notFresh)
		} else if t.tryDrop(p) {
			return p
		}
	}
	for p := range t.oldestFirst(&t.notFresh) {
		if t.tryDrop(p) {
			return p
		}
	}
	return nil
}

// oldestFirst yields the partitions of a list, the least recently used first.
// The one that it yielded last may be moved to another list.
// It requires that t.mu is held.
func (t *partitionTable) oldestFirst(l *list.List) iter.Seq[*partition] {
	return func(yield func(*partition) bool) {
		for e := l.Back(); e != nil; {
			p := e.Value.(*partition)
			e = e.Prev()
			t.looks++
			if !yield(p) {
				return
			}
		}
	}
}

// tryDrop drops p and returns true, or watches it if a call holds it.
// It requires that t.mu is held.
func (t *partitionTable) tryDrop(p *partition) bool {
	if !p.drop() {
		if p.in != &t.extra {
			t.move(p, &t.held)
		}
		return false
	}
	p.in.Remove(p.place)
	p.in, p.place = nil, nil
	delete(t.byName, p.name)
	p.share.drop()
	return true
}

// putFor adds a new partition to the table in place of old, which was dropped,
// with the bucket of that. The tokens of a bucket that many processes share stay
// in the store; the new one begins with as many. It requires that t.mu is held.
func (t *partitionTable) putFor(old, p *partition) {
	p.quota = old.quota
	if t.newShare != nil {
		p.quota = t.newQuota()
		p.quota.takeUpTo(p.quota.Tokens() - old.quota.Tokens())
	}
	t.putShared(p)
	if p.share != nil {
		p.share.firstTokens = old.share.left()
	}
}

// putShared adds a new partition to the table, whose buckets other processes
// share if they share any. It requires that t.mu is held.
func (t *partitionTable) putShared(p *partition) {
	if t.newShare != nil {
		p.share, p.joins = t.newShare(p), true
	}
	t.put(p, &t.used)
}

// put adds a new partition to the table. It requires that t.mu is held.
func (t *partitionTable) put(p *partition, in *list.List) {
	p.in, p.place = in, in.PushFront(p)
	t.byName[p.name] = p
}

// move moves p to the front of a list. It requires that t.mu is held.
func (t *partitionTable) move(p *partition, to *list.List) {
	if p.in == to {
		to.MoveToFront(p.place)
		return
	}
	p.in.Remove(p.place)
	p.in, p.place = to, to.PushFront(p)
}

// find returns the named partition without using it, or nil.
func (t *partitionTable) find(name string) *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byName[boundedName(name)]
}

// all returns the partitions, the most recently used first.
func (t *partitionTable) all() []*partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*partition, 0, len(t.byName))
	for _, l := range []*list.List{&t.extra, &t.held, &t.used, &t.notFresh} {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*partition))
		}
	}
	return all
}

// maxPartitionName is the maximum length of a partition's name in bytes. No DNS
// name is longer.
const maxPartitionName = 255

// boundedName returns the name that a partition is kept under: the name itself,
// or the beginning and a hash of one that is too long.
func boundedName(name string) string {
	if len(name) <= maxPartitionName {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := "#" + hex.EncodeToString(hash[:])
	end := maxPartitionName - len(suffix)
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + suffix
}
