package awsretry

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
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
	name     string
	host     string // as the first request's URL spells it; "" if the name is not a host's
	quota    *Quota
	limiter  *RateLimiter // nil except in adaptive mode
	gate     gate.Gate    // for Transport.ShareRetryAfter
	heldBack atomic.Int64 // how many requests wait for the gate
	share    *localShare  // nil if no other process shares the buckets
	extra    bool         // exceeds the table's size, and uses the quota of another partition

	calls atomic.Int64 // in progress, or dropped
	joins bool         // the next request calls Shared.Join; guarded by the table's mutex
}

// dropped is the calls of a partition that the table does not have any more.
const dropped = -1

// hold keeps p from being dropped until release. It returns false if p was
// dropped already.
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

// drop makes hold fail. It returns false if a call is in progress.
func (p *partition) drop() bool { return p.calls.CompareAndSwap(0, dropped) }

// fresh reports whether p is as good as new: its retry token bucket is full,
// and nothing delays its requests. A bucket that many processes share counts as
// full if this process has the tokens of a retry.
func (p *partition) fresh() bool {
	full := p.quota.full()
	if p.share.granted() != nil {
		full = p.quota.Tokens() >= min(p.share.cost, p.share.capacity)
	}
	return full && !p.limits()
}

// limits reports whether a throttling response or a Retry-After delays the
// requests of p.
func (p *partition) limits() bool {
	if p.limiter != nil && p.limiter.delays() {
		return true
	}
	if p.gate.Load() == nil {
		return false
	}
	return p.gate.ClosedFor(time.Now()) > 0
}

// A partitionTable makes partitions when they are first used, and keeps a
// limited number of them.
//
// In a full table, a new partition replaces an old one and takes over its retry
// token bucket, however empty. So neither the outages of many services nor
// made-up names lead to more retries than that number of buckets pays for.
// Where many processes share the buckets, the new partition has a bucket of its
// own that begins with what the old one had left.
//
// Where calls may wait in line, a partition is not replaced while calls use it:
// later ones would overtake its line. While calls use all of them, a new
// partition is an extra one: it shares the bucket of another, and is dropped
// when no call uses it.
type partitionTable struct {
	size       int
	newQuota   func() *Quota
	newLimiter func() *RateLimiter          // returns nil except in adaptive mode
	hasLines   bool                         // calls may wait in line
	newShare   func(*partition) *localShare // of a new partition; nil if no other process shares the buckets
	joined     func(sharing.Share)          // called without mu for each new share, by the request that uses it first

	// recent was used last. Requests that all use one partition find it without
	// the lock.
	recent atomic.Pointer[partition]

	mu     sync.Mutex               // guards the fields below
	byName map[string]*list.Element // in used
	used   list.List                // of *partition; the most recently used is in front
}

// get returns the named partition, and makes it if there is none. host is the
// name as a request's URL spells it, or "" if the name is not a host's. The
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

// findOrAdd is get for a name that was not used last. It reports whether the
// partition has yet to join.
func (t *partitionTable) findOrAdd(name, host string) (p *partition, joins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byName[name]; e != nil {
		t.used.MoveToFront(e)
		p = e.Value.(*partition)
	} else {
		p = t.add(name, host)
	}
	t.hold(p) // succeeds, because drop requires t.mu
	t.recent.Store(p)
	joins, p.joins = p.joins, false
	return p, joins
}

// join calls joined for a partition that the caller holds. If that panics, the
// partition is released, and the next request calls it again.
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

// hold keeps p in the table until release. It returns false if p was dropped.
func (t *partitionTable) hold(p *partition) bool { return !t.hasLines || p.hold() }

// release ends the hold on a partition that get returned.
func (t *partitionTable) release(p *partition) {
	if t.hasLines && p.calls.Add(-1) == 0 && p.extra {
		t.dropExtra(p)
	}
}

// add makes a partition. It requires that t.mu is held.
func (t *partitionTable) add(name, host string) *partition {
	if len(host) > maxPartitionName {
		host = ""
	}
	p := t.newPartition(strings.Clone(name), strings.Clone(host), t.newLimiter())
	if t.used.Len() < t.size {
		p.quota = t.newQuota()
		t.put(p)
	} else if old := t.dropOne(); old != nil {
		t.replace(old, p)
	} else {
		lender := t.used.Back()
		t.used.MoveToFront(lender) // another one lends its bucket next
		p.extra, p.quota = true, lender.Value.(*partition).quota
		t.put(p)
	}
	return p
}

func (t *partitionTable) newPartition(name, host string, limiter *RateLimiter) *partition {
	return &partition{name: name, host: host, limiter: limiter}
}

// mostLooks is how many partitions a new one looks at before it replaces one.
// It bounds what a flood of made-up names costs.
const mostLooks = 128

// dropOne drops a partition and returns it: of the least recently used ones the
// first that is fresh, or if there is none the first. It returns nil if calls
// use all of them. It requires that t.mu is held.
func (t *partitionTable) dropOne() *partition {
	var oldest *partition
	e := t.used.Back()
	for looks := min(t.used.Len(), mostLooks); looks > 0; looks-- {
		p, next := e.Value.(*partition), e.Prev()
		switch {
		case p.extra || p.calls.Load() > 0:
			t.used.MoveToFront(e)
		case p.fresh() && t.drop(p):
			return p
		case oldest == nil:
			oldest = p
		}
		e = next
	}
	if oldest != nil && t.drop(oldest) {
		return oldest
	}
	return nil
}

// drop removes p from the table, unless a call uses it.
// It requires that t.mu is held.
func (t *partitionTable) drop(p *partition) bool {
	if !p.drop() {
		return false
	}
	t.used.Remove(t.byName[p.name])
	delete(t.byName, p.name)
	p.share.drop()
	return true
}

// dropExtra drops an extra partition that no call uses. If it limits its
// requests, it replaces another one, so that the next requests are limited too.
func (t *partitionTable) dropExtra(p *partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.drop(p) || !p.limits() {
		return
	}
	if old := t.dropOne(); old != nil {
		next := t.newPartition(p.name, p.host, p.limiter)
		next.gate.Store(p.gate.Load())
		t.replace(old, next)
	}
}

// replace adds p with the bucket of old, which was dropped. The tokens of a
// bucket that many processes share stay in the store; p begins with as many.
// It requires that t.mu is held.
func (t *partitionTable) replace(old, p *partition) {
	p.quota = old.quota
	if t.newShare != nil {
		p.quota = t.newQuota()
		p.quota.takeUpTo(p.quota.Tokens() - old.quota.Tokens())
	}
	t.put(p)
	if p.share != nil {
		p.share.firstTokens = old.share.left()
	}
}

// put adds p to the table, and has it join unless it is an extra one.
// It requires that t.mu is held.
func (t *partitionTable) put(p *partition) {
	if t.newShare != nil && !p.extra {
		p.share, p.joins = t.newShare(p), true
	}
	if t.byName == nil {
		t.byName = make(map[string]*list.Element)
	}
	t.byName[p.name] = t.used.PushFront(p)
}

// find returns the named partition without using it, or nil.
func (t *partitionTable) find(name string) *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	if e := t.byName[boundedName(name)]; e != nil {
		return e.Value.(*partition)
	}
	return nil
}

// all returns the partitions, the most recently used first.
func (t *partitionTable) all() []*partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*partition, 0, t.used.Len())
	for e := t.used.Front(); e != nil; e = e.Next() {
		all = append(all, e.Value.(*partition))
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
