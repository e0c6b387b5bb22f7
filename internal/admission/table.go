package admission

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"

	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/tokens"
)

// A Table makes partitions when they are first used, and keeps a limited number of
// them.
//
// In a full table, a new partition replaces an old one and takes over its bucket,
// however empty. So neither the outages of many services nor made-up names lead
// to more retries than that number of buckets pays for.
//
// If calls may wait in line, a partition is not replaced while calls use it,
// because later calls would overtake its line. While calls use all partitions, a
// new partition is an extra one: it shares the bucket of another, and is dropped
// when no call uses it.
//
// The fields must be set before the first use. A Table is safe for concurrent
// use.
type Table struct {
	Size  int
	Lines bool   // calls may wait in line
	Start uint64 // of the Spread of a partition

	NewQuota func() *tokens.Quota
	NewPacer func() *pacer.Pacer     // returns nil except in adaptive mode
	NewShare func(*Partition) *Share // nil if no other process shares the buckets
	Join     func(*Share)            // called by the first request that uses a new share

	// recent is the partition that was used last. Requests that all use one
	// partition find it without the lock.
	recent atomic.Pointer[Partition]

	mu     sync.Mutex               // guards the fields below
	byName map[string]*list.Element // in used
	used   list.List                // of *Partition; the most recently used is in front
}

// OfURL is Get for the host and port of a URL, which differ only in case from
// the name.
func (t *Table) OfURL(u *url.URL) *Partition {
	if u == nil { // net/http refuses it
		return t.Get("")
	}
	host := u.Host
	if p := t.recent.Load(); p != nil && p.Host == host && host != "" && t.hold(p) {
		return p
	}
	return t.get(strings.ToLower(host), host)
}

// Get returns the named partition, and makes it if there is none. The caller must
// call Release.
func (t *Table) Get(name string) *Partition { return t.get(name, "") }

func (t *Table) get(name, host string) *Partition {
	name = bounded(name)
	if p := t.recent.Load(); p != nil && p.Name == name && t.hold(p) {
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
func (t *Table) findOrAdd(name, host string) (p *Partition, joins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := t.byName[name]; place != nil {
		t.used.MoveToFront(place)
		p = place.Value.(*Partition)
	} else {
		p = t.add(name, host)
	}
	t.hold(p) // succeeds, because drop requires t.mu
	t.recent.Store(p)
	joins, p.joins = p.joins, false
	return p, joins
}

// join calls Join for a partition that the caller holds. If that panics, the
// partition is released, and the next request calls it again.
func (t *Table) join(p *Partition) {
	joined := false
	defer func() {
		if !joined {
			t.mu.Lock()
			p.joins = true
			t.recent.CompareAndSwap(p, nil)
			t.mu.Unlock()
			t.Release(p)
		}
	}()
	t.Join(p.Share)
	joined = true
}

// hold keeps p in the table until Release. It returns false if p was dropped.
func (t *Table) hold(p *Partition) bool { return !t.Lines || p.hold() }

// Release ends the use of a partition that Get or OfURL returned.
func (t *Table) Release(p *Partition) {
	if t.Lines && p.calls.Add(-1) == 0 && p.extra {
		t.dropExtra(p)
	}
}

// add makes a partition. It requires that t.mu is held.
func (t *Table) add(name, host string) *Partition {
	if len(host) > maxName {
		host = ""
	}
	p := &Partition{Name: strings.Clone(name), Host: strings.Clone(host)}
	p.Spread.Start(t.Start)
	if t.used.Len() < t.Size {
		t.fill(p, t.NewQuota(), t.NewPacer(), t.NewShare)
	} else if old := t.dropOne(); old != nil {
		t.replace(p, old, nil)
	} else {
		lender := t.used.Back()
		t.used.MoveToFront(lender) // another partition lends its bucket next
		p.extra = true
		t.fill(p, lender.Value.(*Partition).Quota, t.NewPacer(), nil)
	}
	t.put(p)
	return p
}

// fill sets what the requests to p share. share is nil if no other process shares
// its bucket.
func (t *Table) fill(p *Partition, quota *tokens.Quota, pacer *pacer.Pacer, share func(*Partition) *Share) {
	p.Quota, p.Pacer = quota, pacer
	if share != nil {
		p.Share = share(p)
	}
}

// replace makes p take over the bucket of old, which was dropped. The tokens of a
// bucket that many processes share stay in the store; p begins with as many. If
// extra is not nil, p continues in the state of extra, a partition of the same name.
func (t *Table) replace(p, old, extra *Partition) {
	quota, pacer := old.Quota, (*pacer.Pacer)(nil)
	if extra != nil {
		pacer = extra.Pacer
		p.Gate.Store(extra.Gate.Load())
	} else {
		pacer = t.NewPacer()
	}
	if t.NewShare != nil {
		quota = t.NewQuota()
		quota.TakeUpTo(quota.Tokens() - old.Quota.Tokens())
	}
	t.fill(p, quota, pacer, t.NewShare)
	if t.NewShare != nil {
		p.Share.firstTokens = old.Share.left()
	}
}

// put adds p to the table. It requires that t.mu is held.
func (t *Table) put(p *Partition) {
	p.joins = !p.extra && t.NewShare != nil
	if t.byName == nil {
		t.byName = make(map[string]*list.Element)
	}
	t.byName[p.Name] = t.used.PushFront(p)
}

// mostLooks is how many partitions are examined before one is replaced. It bounds
// the cost of a flood of made-up names.
const mostLooks = 128

// dropOne drops a partition and returns it: the first fresh one of the least
// recently used partitions, or the first one if none is fresh. It returns nil if
// calls use all of them. It requires that t.mu is held.
func (t *Table) dropOne() *Partition {
	var oldest *Partition
	place := t.used.Back()
	for looks := min(t.used.Len(), mostLooks); looks > 0; looks-- {
		p, next := place.Value.(*Partition), place.Prev()
		switch {
		case p.extra || p.calls.Load() > 0:
			t.used.MoveToFront(place)
		case p.fresh() && t.drop(p):
			return p
		case oldest == nil:
			oldest = p
		}
		place = next
	}
	if oldest != nil && t.drop(oldest) {
		return oldest
	}
	return nil
}

// drop removes p from the table, unless a call uses it.
// It requires that t.mu is held.
func (t *Table) drop(p *Partition) bool {
	if !p.calls.CompareAndSwap(0, dropped) {
		return false
	}
	t.used.Remove(t.byName[p.Name])
	delete(t.byName, p.Name)
	p.Share.drop()
	return true
}

// dropExtra drops an extra partition that no call uses. If it limits its requests,
// it replaces another one instead, so that the next requests are limited, too.
func (t *Table) dropExtra(p *Partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.drop(p) || !p.limits() {
		return
	}
	if old := t.dropOne(); old != nil {
		next := &Partition{Name: p.Name, Host: p.Host}
		t.replace(next, old, p)
		t.put(next)
	}
}

// Find returns the named partition without using it, or nil.
func (t *Table) Find(name string) *Partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := t.byName[bounded(name)]; place != nil {
		return place.Value.(*Partition)
	}
	return nil
}

// All returns the partitions, the most recently used first.
func (t *Table) All() []*Partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Partition, 0, t.used.Len())
	for place := t.used.Front(); place != nil; place = place.Next() {
		all = append(all, place.Value.(*Partition))
	}
	return all
}

// maxName is the maximum length of a name in bytes. No DNS name is longer.
const maxName = 255

// bounded returns the name under which a partition is stored: the name itself, or
// the beginning and a hash of a name that is too long.
func bounded(name string) string {
	if len(name) <= maxName {
		return name
	}
	hash := sha256.Sum256([]byte(name))
	suffix := "#" + hex.EncodeToString(hash[:])
	end := maxName - len(suffix)
	for end > 0 && !utf8.RuneStart(name[end]) {
		end--
	}
	return name[:end] + suffix
}
