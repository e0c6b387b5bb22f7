// Package partitions is a bounded table of what the requests to one service, or to
// one part of it, share. A new entry takes over the bucket of the entry that it
// replaces.
package partitions

import (
	"container/list"
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"sync"
	"sync/atomic"
	"unicode/utf8"
)

// An Entry is a partition. V is what its requests share.
type Entry[V any] struct {
	Name  string
	Host  string // as spelled in the first request's URL; "" if the name is not a host
	Value V

	extra bool         // exceeds the table's size, and uses the bucket of another entry
	calls atomic.Int64 // in progress, or dropped
	joins bool         // the next request calls Kind.Join; guarded by the table's mutex
}

// dropped is the value of calls of an entry that is no longer in the table.
const dropped = -1

// hold keeps e from being dropped until release. It returns false if e was
// dropped already.
func (e *Entry[V]) hold() bool {
	for {
		calls := e.calls.Load()
		if calls == dropped {
			return false
		}
		if e.calls.CompareAndSwap(calls, calls+1) {
			return true
		}
	}
}

// A Kind makes the values of the entries. Its methods are called with the table
// locked, except Join.
type Kind[V any] interface {
	// New sets the value of an entry that has its own bucket.
	New(e *Entry[V])

	// Replace sets the value of an entry that takes over the bucket of old, which
	// was dropped. If extra is not nil, e continues in the state of extra, an entry
	// of the same name.
	Replace(e, old, extra *Entry[V])

	// Borrow sets the value of an extra entry, which uses the bucket of lender.
	Borrow(e, lender *Entry[V])

	// Dropped is called for an entry that was dropped.
	Dropped(e *Entry[V])

	// Fresh reports whether an entry is as good as new.
	Fresh(e *Entry[V]) bool

	// Limits reports whether an entry delays its requests.
	Limits(e *Entry[V]) bool

	// Join is called by the first request of an entry that is not extra, if Joins
	// returns true. If Join panics, the next request calls it again.
	Join(e *Entry[V])
	Joins() bool
}

// A Table makes entries when they are first used, and keeps a limited number of
// them.
//
// In a full table, a new entry replaces an old one and takes over its bucket,
// however empty. So neither the outages of many services nor made-up names lead
// to more retries than that number of buckets pays for.
//
// If calls may wait in line, an entry is not replaced while calls use it, because
// later calls would overtake its line. While calls use all entries, a new entry is
// an extra one: it shares the bucket of another, and is dropped when no call uses
// it.
//
// The fields must be set before the first use. A Table is safe for concurrent
// use.
type Table[V any] struct {
	Size  int
	Kind  Kind[V]
	Lines bool // calls may wait in line

	// recent is the entry that was used last. Requests that all use one entry find
	// it without the lock.
	recent atomic.Pointer[Entry[V]]

	mu     sync.Mutex               // guards the fields below
	byName map[string]*list.Element // in used
	used   list.List                // of *Entry[V]; the most recently used is in front
}

// OfHost is Get for the host and port of a URL, which differ only in case from
// the name.
func (t *Table[V]) OfHost(host string) *Entry[V] {
	if e := t.recent.Load(); e != nil && e.Host == host && host != "" && t.hold(e) {
		return e
	}
	return t.get(strings.ToLower(host), host)
}

// Get returns the named entry, and makes it if there is none. The caller must
// call Release.
func (t *Table[V]) Get(name string) *Entry[V] { return t.get(name, "") }

func (t *Table[V]) get(name, host string) *Entry[V] {
	name = bounded(name)
	if e := t.recent.Load(); e != nil && e.Name == name && t.hold(e) {
		return e
	}
	e, joins := t.findOrAdd(name, host)
	if joins {
		t.join(e)
	}
	return e
}

// findOrAdd is get for a name that was not used last. It reports whether the
// entry has yet to join.
func (t *Table[V]) findOrAdd(name, host string) (e *Entry[V], joins bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := t.byName[name]; place != nil {
		t.used.MoveToFront(place)
		e = place.Value.(*Entry[V])
	} else {
		e = t.add(name, host)
	}
	t.hold(e) // succeeds, because drop requires t.mu
	t.recent.Store(e)
	joins, e.joins = e.joins, false
	return e, joins
}

// join calls Join for an entry that the caller holds. If that panics, the entry is
// released, and the next request calls it again.
func (t *Table[V]) join(e *Entry[V]) {
	joined := false
	defer func() {
		if !joined {
			t.mu.Lock()
			e.joins = true
			t.recent.CompareAndSwap(e, nil)
			t.mu.Unlock()
			t.Release(e)
		}
	}()
	t.Kind.Join(e)
	joined = true
}

// hold keeps e in the table until Release. It returns false if e was dropped.
func (t *Table[V]) hold(e *Entry[V]) bool { return !t.Lines || e.hold() }

// Release ends the use of an entry that Get or OfHost returned.
func (t *Table[V]) Release(e *Entry[V]) {
	if t.Lines && e.calls.Add(-1) == 0 && e.extra {
		t.dropExtra(e)
	}
}

// add makes an entry. It requires that t.mu is held.
func (t *Table[V]) add(name, host string) *Entry[V] {
	if len(host) > maxName {
		host = ""
	}
	e := &Entry[V]{Name: strings.Clone(name), Host: strings.Clone(host)}
	if t.used.Len() < t.Size {
		t.Kind.New(e)
	} else if old := t.dropOne(); old != nil {
		t.Kind.Replace(e, old, nil)
	} else {
		lender := t.used.Back()
		t.used.MoveToFront(lender) // another entry lends its bucket next
		e.extra = true
		t.Kind.Borrow(e, lender.Value.(*Entry[V]))
	}
	t.put(e)
	return e
}

// put adds e to the table. It requires that t.mu is held.
func (t *Table[V]) put(e *Entry[V]) {
	e.joins = !e.extra && t.Kind.Joins()
	if t.byName == nil {
		t.byName = make(map[string]*list.Element)
	}
	t.byName[e.Name] = t.used.PushFront(e)
}

// mostLooks is how many entries are examined before one is replaced. It bounds the
// cost of a flood of made-up names.
const mostLooks = 128

// dropOne drops an entry and returns it: the first fresh one of the least recently
// used entries, or the first one if none is fresh. It returns nil if calls use all
// of them. It requires that t.mu is held.
func (t *Table[V]) dropOne() *Entry[V] {
	var oldest *Entry[V]
	place := t.used.Back()
	for looks := min(t.used.Len(), mostLooks); looks > 0; looks-- {
		e, next := place.Value.(*Entry[V]), place.Prev()
		switch {
		case e.extra || e.calls.Load() > 0:
			t.used.MoveToFront(place)
		case t.Kind.Fresh(e) && t.drop(e):
			return e
		case oldest == nil:
			oldest = e
		}
		place = next
	}
	if oldest != nil && t.drop(oldest) {
		return oldest
	}
	return nil
}

// drop removes e from the table, unless a call uses it.
// It requires that t.mu is held.
func (t *Table[V]) drop(e *Entry[V]) bool {
	if !e.calls.CompareAndSwap(0, dropped) {
		return false
	}
	t.used.Remove(t.byName[e.Name])
	delete(t.byName, e.Name)
	t.Kind.Dropped(e)
	return true
}

// dropExtra drops an extra entry that no call uses. If the entry limits its
// requests, it replaces another one instead, so that the next requests are limited,
// too.
func (t *Table[V]) dropExtra(e *Entry[V]) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.drop(e) || !t.Kind.Limits(e) {
		return
	}
	if old := t.dropOne(); old != nil {
		next := &Entry[V]{Name: e.Name, Host: e.Host}
		t.Kind.Replace(next, old, e)
		t.put(next)
	}
}

// Find returns the named entry without using it, or nil.
func (t *Table[V]) Find(name string) *Entry[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	if place := t.byName[bounded(name)]; place != nil {
		return place.Value.(*Entry[V])
	}
	return nil
}

// All returns the entries, the most recently used first.
func (t *Table[V]) All() []*Entry[V] {
	t.mu.Lock()
	defer t.mu.Unlock()
	all := make([]*Entry[V], 0, t.used.Len())
	for place := t.used.Front(); place != nil; place = place.Next() {
		all = append(all, place.Value.(*Entry[V]))
	}
	return all
}

// maxName is the maximum length of a name in bytes. No DNS name is longer.
const maxName = 255

// bounded returns the name under which an entry is stored: the name itself, or the
// beginning and a hash of a name that is too long.
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
