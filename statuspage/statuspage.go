// Package statuspage shows what Transports do as a page for a browser: for each
// partition its buckets, the last minute and the last failure, and the settings
// in force. It shows the same as JSON.
//
//	page := statuspage.New(t)
//	t.Observe = page.Observe
//	http.Handle("/debug/awsretry", page)
//
// The page shows no query, header or body of a request or response, and of URLs
// in errors neither user nor query. It shows hosts, paths in errors, and the names of
// partitions up to a question mark. Serve it where only operators can reach it,
// as net/http/pprof.
package statuspage

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"time"

	"example.com/awsretry"
)

// A Page shows the state of Transports. It is an http.Handler. The zero Page
// shows no Transport, and the attempts that it observes.
type Page struct {
	transports []*awsretry.Transport
	names      []string // of transports; "": by number
	limit      int      // of recent and of older; 0 means defaultLimit

	mu     sync.RWMutex // guards the maps
	recent map[string]*record
	older  map[string]*record // that were not used since recent was begun
}

// defaultLimit is the default of Transport.MaxPartitions.
const defaultLimit = 1024

// New returns a page that shows these Transports: see Add.
func New(transports ...*awsretry.Transport) *Page {
	p := new(Page)
	for _, t := range transports {
		p.Add("", t)
	}
	return p
}

// Add adds a Transport to the page, under a name that tells it from others; a
// Transport without one has a number. It ignores nil, and a Transport that the
// page already has. Call it before the page is served, with a Transport whose
// MaxPartitions is set: the page keeps the last minute and the last failure of at
// most twice as many partitions.
func (p *Page) Add(name string, t *awsretry.Transport) {
	if t == nil || slices.Contains(p.transports, t) {
		return
	}
	p.transports, p.names = append(p.transports, t), append(p.names, name)
	p.limit += max(cmp.Or(t.MaxPartitions, defaultLimit), 1)
}

// Observe counts an attempt. Set it as Transport.Observe, or call it from an
// observer of your own. It also counts the attempts of Transports that the page
// does not have, by the names of their partitions. It is safe for concurrent
// use.
func (p *Page) Observe(a awsretry.Attempt) {
	var failed *failure
	if a.Class != awsretry.Success {
		failed = failureOf(&a)
	}
	p.record(a.Partition).count(time.Now(), &a, failed)
}

// maxName is the length of the longest name that a Transport gives a partition.
const maxName = 255

// record returns the record of a partition, and makes it if there is none.
func (p *Page) record(name string) *record {
	name = name[:min(len(name), maxName)]
	p.mu.RLock()
	r := p.recent[name]
	p.mu.RUnlock()
	if r == nil {
		r = p.add(name)
	}
	return r
}

// add is record for a name that is not in recent. If that is full it becomes
// older, and what was older is forgotten. So a partition in use is kept, however
// many others come and go.
func (p *Page) add(name string) *record {
	p.mu.Lock()
	defer p.mu.Unlock()
	if r := p.recent[name]; r != nil {
		return r
	}
	r := p.older[name]
	if r == nil {
		r = &record{name: strings.Clone(name)}
	}
	if p.recent == nil || len(p.recent) >= cmp.Or(p.limit, defaultLimit) {
		p.recent, p.older = make(map[string]*record), p.recent
	}
	delete(p.older, name)
	p.recent[r.name] = r
	return r
}

// records returns all records by their names.
func (p *Page) records() map[string]*record {
	p.mu.RLock()
	defer p.mu.RUnlock()
	all := make(map[string]*record, len(p.recent)+len(p.older))
	for _, some := range []map[string]*record{p.older, p.recent} {
		for name, r := range some {
			all[name] = r
		}
	}
	return all
}
