package awsretry

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"
)

const defaultMaxPartitions = 1024

// A partition is what requests to one service, or one part of it, share.
type partition struct {
	name    string
	host    string // as the first request spelled it, for a partition that is a host's; "" for another
	quota   *Quota
	limiter *RateLimiter // nil but in adaptive mode
	gate    gate         // for Transport.ShareRetryAfter

	calls atomic.Int64 // that hold the partition; dropped where the table has it no more

	place *list.Element // guarded by the table's mutex, as list is
	list  *list.List    // of the table, where place is
}

const dropped = -1

// hold keeps p in its table. It reports false where p is dropped already.
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

// fresh reports whether p is like a new one: its retry bucket is full, and nothing holds its requests back.
func (p *partition) fresh() bool { return p.quota.full() && !p.limits() }

func (p *partition) limits() bool {
	if p.limiter != nil && p.limiter.limiting.Load() {
		return true
	}
	closed, _ := p.gate.closedFor(time.Now())
	return closed > 0
}

func (p *partition) state() State {
	s := State{Tokens: p.quota.Tokens()}
	if p.limiter != nil {
		s.MeasuredRate, s.SendRate, s.Limited = p.limiter.Rates()
		s.Waiting, s.ExpectedWait = p.limiter.line()
	}
	return s
}

// A partitionTable keeps as many partitions as fit, and makes those that are asked for.
//
// For a new one, the least recently used of those that are fresh is dropped, else of all that no call holds. The new one takes over
// the retry bucket of the one that is dropped, drained as it may be; its limiter is a new one. So there are never more buckets
// than fit, and neither outages of more services than fit nor made-up names bring anybody more retries than these hold.
//
// Where calls may stand in line, each holds its partition, so that its line is not overtaken by those who come to a successor.
// While calls hold all, another partition is an extra: it shares the bucket of one of them, and is kept as long as it is held.
type partitionTable struct {
	size       int
	newQuota   func() *Quota
	newLimiter func() *RateLimiter // returns nil but in adaptive mode
	hasLines   bool                // calls may stand in line

	// recent was used last. It is read without mu, so that requests which all go to one partition take no lock.
	recent atomic.Pointer[partition]

	// crowded is set where busy or extra has any. It is written under mu, and before a partition is found to be held still, so
	// that the last one to let go of it knows.
	crowded atomic.Bool

	mu     sync.Mutex // guards everything below
	byName map[string]*partition

	// Each partition is in one of these lists, in which the most recently used is in front.
	used  list.List
	kept  list.List // used before all of used; when it was last looked at, it was not fresh
	busy  list.List // when it was last looked at, calls held it
	extra list.List

	looks int // at partitions that might be dropped; the tests compare it with the number of requests
}

// maxPartitionName is the greatest length of a partition's name, in bytes. No name in DNS is longer.
const maxPartitionName = 255

// boundedName is the name by which a partition is kept: name itself, or the beginning and a hash of one that is too long.
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

// get returns the named partition, which it makes where there is none, and which is then the most recently used. host is the
// name as a request's URL spells it, "" where it is none from a URL. The partition is held; release has to be called.
func (t *partitionTable) get(name, host string) *partition {
	name = boundedName(name)
	if p := t.recent.Load(); p != nil && p.name == name && t.hold(p) {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	p := t.byName[name]
	switch {
	case p == nil:
		p = t.add(name, host)
	case p.list == &t.kept:
		t.move(p, &t.used)
	default:
		p.list.MoveToFront(p.place)
	}
	t.hold(p) // which cannot fail: only mu's holder drops one
	t.recent.Store(p)
	return p
}

// hold keeps p in the table until release. It reports false where p is dropped already.
func (t *partitionTable) hold(p *partition) bool { return !t.hasLines || p.hold() }

// release lets go of a partition that get returned.
func (t *partitionTable) release(p *partition) {
	if t.hasLines && p.calls.Add(-1) == 0 && t.crowded.Load() {
		t.settle(p)
	}
}

// settle puts a partition that was held when it was last looked at where it belongs.
func (t *partitionTable) settle(p *partition) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch p.list {
	case &t.busy:
		t.move(p, &t.used)
	case &t.extra:
		if !t.tryDrop(p) || !p.limits() {
			break
		}
		if old := t.drop(); old != nil { // its limiter is not to be forgotten
			next := &partition{name: p.name, host: p.host, quota: old.quota, limiter: p.limiter}
			next.gate.current.Store(p.gate.Load())
			t.put(next, &t.used)
		}
	}
	t.crowded.Store(t.busy.Len()+t.extra.Len() > 0)
}

// add makes a partition. t.mu must be held.
func (t *partitionTable) add(name, host string) *partition {
	p := &partition{name: strings.Clone(name), limiter: t.newLimiter()}
	if len(host) <= maxPartitionName {
		p.host = strings.Clone(host)
	}
	if len(t.byName) < t.size {
		p.quota = t.newQuota()
		t.put(p, &t.used)
	} else if old := t.drop(); old != nil {
		p.quota = old.quota
		t.put(p, &t.used)
	} else {
		lender := t.busy.Back()
		t.busy.MoveToFront(lender) // the next one is lent another's
		p.quota = lender.Value.(*partition).quota
		t.put(p, &t.extra)
	}
	return p
}

// drop drops a partition and returns it, nil where calls hold all. A partition that stays is put where it is not looked at again
// before it is used or let go, but for a few: so a flood of new names costs no more for each where there are many. t.mu must be held.
func (t *partitionTable) drop() *partition {
	// Time, or calls that were under way, may have filled the bucket of one that was kept.
	const again = 8
	e := t.kept.Back()
	for i := 0; e != nil && i < again; i++ {
		p := e.Value.(*partition)
		e = e.Prev()
		t.looks++
		if p.fresh() && t.tryDrop(p) {
			return p
		}
	}
	for e := t.used.Back(); e != nil; e = t.used.Back() {
		p := e.Value.(*partition)
		t.looks++
		if !p.fresh() {
			t.move(p, &t.kept)
		} else if t.tryDrop(p) {
			return p
		}
	}
	for e := t.kept.Back(); e != nil; e = t.kept.Back() {
		p := e.Value.(*partition)
		t.looks++
		if t.tryDrop(p) {
			return p
		}
	}
	return nil
}

// tryDrop drops p, or sees to it that one that is held is not looked at again before it is let go. t.mu must be held.
func (t *partitionTable) tryDrop(p *partition) bool {
	if !p.calls.CompareAndSwap(0, dropped) {
		t.crowded.Store(true)
		if !p.calls.CompareAndSwap(0, dropped) { // it was not let go before crowded was set
			if p.list != &t.extra {
				t.move(p, &t.busy)
			}
			return false
		}
	}
	p.list.Remove(p.place)
	delete(t.byName, p.name)
	return true
}

// put puts a new partition into the table. t.mu must be held.
func (t *partitionTable) put(p *partition, in *list.List) {
	p.list, p.place = in, in.PushFront(p)
	t.byName[p.name] = p
}

// move moves p to the front of another list. t.mu must be held.
func (t *partitionTable) move(p *partition, to *list.List) {
	p.list.Remove(p.place)
	p.list, p.place = to, to.PushFront(p)
}

// find returns the named partition without using it, nil where there is none.
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
	for _, l := range []*list.List{&t.extra, &t.busy, &t.used, &t.kept} {
		for e := l.Front(); e != nil; e = e.Next() {
			all = append(all, e.Value.(*partition))
		}
	}
	return all
}

// partitionOf returns the partition of a request. It is held; the table's release has to be called.
func (e *engine) partitionOf(req *http.Request, options *callOptions) *partition {
	switch {
	case options != nil && options.hasPartition:
		return e.partitions.get(options.partition, "")
	case e.partitionName != nil:
		return e.partitions.get(e.partitionName(req), "")
	case req.URL == nil:
		return e.partitions.get("", "")
	}
	host := req.URL.Host
	if p := e.partitions.recent.Load(); p != nil && p.host == host && host != "" && e.partitions.hold(p) {
		return p
	}
	return e.partitions.get(strings.ToLower(host), host)
}
