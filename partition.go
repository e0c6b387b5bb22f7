package awsretry

import (
	"container/list"
	"iter"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

const defaultMaxPartitions = 1024

// State is what a partition's buckets hold.
type State struct {
	Tokens       int     // in the retry token bucket; math.MaxInt where there is none
	Limited      bool    // the rate limiter holds requests back; false but in adaptive mode
	MeasuredRate float64 // answers per second; 0 but in adaptive mode
	SendRate     float64 // the rate limiter's, in requests per second; 0 but in adaptive mode

	Waiting      int           // in line for a send token of the rate limiter
	ExpectedWait time.Duration // for a send token, of one who joined that line now
}

// A partition is what requests to one service, or one part of it, share.
type partition struct {
	name    string
	host    string // as the first request spelled it, for a partition that is a host's; "" for another
	quota   *Quota
	limiter *RateLimiter // nil but in adaptive mode
	gate    gate         // for Transport.ShareRetryAfter
}

func (p *partition) state() State {
	s := State{Tokens: p.quota.Tokens()}
	if p.limiter != nil {
		s.MeasuredRate, s.SendRate, s.Limited = p.limiter.Rates()
		s.Waiting, s.ExpectedWait = p.limiter.line()
	}
	return s
}

// A partitionTable keeps the most recently used partitions.
type partitionTable struct {
	create func() *partition // without a name
	size   int

	// recent is the front of used. It is read without mu, so that requests which all go to one partition take no lock.
	recent atomic.Pointer[partition]

	mu     sync.Mutex
	byName map[string]*list.Element // of used
	used   list.List                // of *partition, the most recently used in front
}

func newPartitionTable(size int, create func() *partition) *partitionTable {
	return &partitionTable{create: create, size: size, byName: make(map[string]*list.Element)}
}

// get returns the named partition, which it makes where there is none, and which is then the most recently used. host is the
// name as a request's URL spells it, "" where it is none from a URL.
func (t *partitionTable) get(name, host string) *partition {
	if p := t.recent.Load(); p != nil && p.name == name {
		return p
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	element, ok := t.byName[name]
	if ok {
		t.used.MoveToFront(element)
	} else {
		for t.used.Len() >= t.size {
			oldest := t.used.Remove(t.used.Back()).(*partition)
			delete(t.byName, oldest.name)
		}
		p := t.create()
		p.name, p.host = strings.Clone(name), strings.Clone(host)
		element = t.used.PushFront(p)
		t.byName[p.name] = element
	}
	p := element.Value.(*partition)
	t.recent.Store(p)
	return p
}

// find returns the named partition without using it, nil where there is none.
func (t *partitionTable) find(name string) *partition {
	t.mu.Lock()
	defer t.mu.Unlock()
	if element, ok := t.byName[name]; ok {
		return element.Value.(*partition)
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

// State returns what the named partition's buckets hold, and whether there is such a partition: one that a request used,
// and that newer ones have not replaced.
func (t *Transport) State(partition string) (State, bool) {
	e := t.running.Load()
	if e == nil {
		return State{}, false
	}
	p := e.partitions.find(partition)
	if p == nil {
		return State{}, false
	}
	return p.state(), true
}

// Partitions yields the name and the state of every partition, the most recently used first.
func (t *Transport) Partitions() iter.Seq2[string, State] {
	return func(yield func(string, State) bool) {
		e := t.running.Load()
		if e == nil {
			return
		}
		for _, p := range e.partitions.all() {
			if !yield(p.name, p.state()) {
				return
			}
		}
	}
}

// partitionOf returns the partition of a request.
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
	if p := e.partitions.recent.Load(); p != nil && p.host == host && host != "" {
		return p
	}
	return e.partitions.get(strings.ToLower(host), host)
}
