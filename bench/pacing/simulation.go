package main

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync"
	"time"

	"example.com/awsretry/internal/pacing"
	"example.com/awsretry/simulate"
	simulated "example.com/awsretry/simulate/scenario"
)

// A simulation is one run of a scenario. Package simulate has the callers and
// the network, and a simulation the service behind it.
type simulation struct {
	scenario scenario
	seed     uint64
	start    time.Time
	clients  int // that are made

	mu sync.Mutex // guards the fields below
	ledger
	service  service
	random   *rand.Rand
	stranger time.Duration // when the next one's request comes
}

// A newLaw returns the law of a client that is made at start. The law may use
// the random numbers of the client.
type newLaw func(start time.Time, random *rand.Rand) pacing.Law

// run runs a scenario. The same seed gives the same figures.
func (s scenario) run(seed uint64, law newLaw) figures {
	const unlimited = 1e6 // requests per second
	m := &simulation{
		scenario: s, seed: seed, ledger: newLedger(s), service: s.serve(s.limit), random: rand.New(rand.NewPCG(seed, 0)),
	}
	if s.others > 0 {
		m.nextStranger()
	}
	_, err := simulate.Run(context.Background(), simulated.Scenario{
		Duration: simulated.Duration(s.length), Seed: seed,
		Clients: simulated.Clients{Count: len(s.clients), Callers: slices.Max(s.clients), Rate: s.arrivals},
		Service: simulated.Service{Capacity: unlimited, Queue: unlimited, Network: simulated.Duration(s.network)},
		Settings: []simulated.Setting{{Name: "pacing", New: func(network http.RoundTripper) http.RoundTripper {
			return m.newClient(network, law)
		}}},
	}, simulate.Options{})
	if err != nil {
		panic(fmt.Sprintf("%s: %v", s.name, err))
	}
	return m.figures(s)
}

func (m *simulation) now() time.Duration { return time.Since(m.start) }

// throttles reports whether the service throttles a request that comes now.
func (m *simulation) throttles() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	now := m.now()
	for m.scenario.others > 0 && m.stranger <= now {
		m.accepts(m.stranger)
		m.nextStranger()
	}
	throttled := !m.accepts(now)
	m.countSent(now, throttled)
	return throttled
}

// accepts reports whether a request is accepted that comes at that time.
func (m *simulation) accepts(now time.Duration) bool {
	refused := m.scenario.random > 0 && m.random.Float64() < m.scenario.random
	return !refused && m.service.accepts(now)
}

// nextStranger draws when the next of the strangers' requests comes, which come
// at random times.
func (m *simulation) nextStranger() {
	m.stranger += 1 + seconds(m.random.ExpFloat64()/m.scenario.others)
}

// ended counts a call that ends now, unless the run has ended.
func (m *simulation) ended(client int, begin time.Duration, succeeded bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if now := m.now(); now < m.scenario.length {
		m.countCall(client, begin, now, succeeded)
	}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
