package deliveryqueue

import (
	"context"
	"time"

	"github.com/riverqueue/river/rivertype"
)

// River takes due jobs in the order of their times, so one endpoint with many
// deliveries would occupy all workers. A fetcher replaces River's query: it reads
// which endpoints have deliveries that are due, and takes from each what the ledger
// allots it.

// A fetcher takes deliveries for the workers of a Run.
type fetcher struct {
	store   *store
	ledger  *ledger
	poll    time.Duration   // between two polls of the store
	running context.Context // of Run

	asked signal // something new may be due

	// River fetches once at a time.
	cursor string    // the endpoint after which the next look begins
	next   time.Time // of the next look; zero: now
	many   bool      // the last look did not read all endpoints
	failed bool      // the last look
}

func (q *Queue) newFetcher(running context.Context) *fetcher {
	return &fetcher{
		store: &q.store, ledger: newLedger(q.config), poll: q.config.PollInterval, running: running, asked: q.asked,
	}
}

// A signal has a value if it was given since the last receive.
type signal chan struct{}

func (s signal) give() {
	select {
	case s <- struct{}{}:
	default:
	}
}

func (f *fetcher) leave(job int64) {
	if f.ledger.leave(job, time.Now()) {
		f.asked.give()
	}
}

// longestFetch is how long River takes at most to notice that its queue is paused.
const longestFetch = 100 * time.Millisecond

// fetch takes deliveries for the free workers. It waits for some, because River
// would call it again at once.
func (f *fetcher) fetch(ctx context.Context, client string) ([]*rivertype.JobRow, error) {
	for end := time.Now().Add(longestFetch); f.running.Err() == nil; {
		left, wait := time.Until(end), time.Until(f.next)
		if left <= 0 {
			break
		}
		if wait > 0 {
			asked := f.asked
			if f.failed {
				asked = nil // do not hurry
			}
			select {
			case <-f.running.Done():
			case <-asked:
				f.next = time.Time{}
			case <-time.After(min(wait, left)):
			}
			continue
		}
		f.next = time.Now().Add(f.poll)
		jobs, err := f.look(ctx, client)
		f.failed = err != nil
		switch {
		case len(jobs) > 0:
			f.next = time.Time{} // there may be more
			return jobs, nil
		case err != nil:
			return nil, err
		}
	}
	return nil, nil
}

// look takes deliveries that are due.
func (f *fetcher) look(ctx context.Context, client string) (jobs []*rivertype.JobRow, err error) {
	chosen, err := f.choose(ctx)
	if err != nil || len(chosen) == 0 {
		return nil, err
	}
	all, err := f.store.take(ctx, chosen, client)
	if err != nil {
		return nil, err
	}
	of := make(map[string]health)
	for _, c := range chosen {
		of[c.Endpoint] = c.health
	}
	for _, t := range all {
		f.ledger.enter(t.job.ID, t.endpoint, of[t.endpoint], time.Now())
		jobs = append(jobs, t.job)
	}
	return jobs, nil
}

const (
	// firstPage is how many endpoints are read at first; each page is twice as
	// long as the one before.
	firstPage = 64

	// mostLooked is about how many endpoints a look reads, unless the first ones have
	// a delivery for each worker.
	mostLooked = 1000

	// mostLately is the number of deliveries that became due recently whose
	// endpoints are also read, if there are more endpoints.
	mostLately = 500
)

// choose returns the endpoints to take deliveries from. It reads all that have
// some. If these are many, it reads those of new deliveries and of retries, and
// continues with the others after those of the last look.
func (f *fetcher) choose(ctx context.Context) ([]candidate, error) {
	var all []candidate
	seen := make(map[string]bool)
	add := func(page []candidate) {
		for _, c := range page {
			switch {
			case !c.due || seen[c.Endpoint]:
			case c.wait > early:
				f.soon(time.Now().Add(c.wait - early/2))
			default:
				all = append(all, c)
			}
			seen[c.Endpoint] = true
		}
	}
	if f.many {
		lately, err := f.store.candidates(ctx, f.store.latelyQuery(mostLately), "", "")
		if err != nil {
			return nil, err
		}
		add(lately)
	}
	from, upTo, read := f.cursor, "", 0
	for size := firstPage; ; size *= 2 {
		page, err := f.store.candidates(ctx, f.store.dueQuery(size), from, upTo)
		if err != nil {
			return nil, err
		}
		add(page)
		read += len(page)
		f.many = (read >= mostLooked || len(all) >= f.ledger.workers) && len(page) == size
		switch whole := len(page) < size; {
		case whole && (upTo != "" || f.cursor == ""):
			f.cursor = ""
			return f.allot(all), nil
		case whole: // around once
			from, upTo = "", f.cursor
		case f.many:
			f.soon(time.Now().Add(f.poll / 8))
			f.cursor = page[size-1].Endpoint
			return f.allot(all), nil
		default:
			from = page[size-1].Endpoint
		}
	}
}

func (f *fetcher) allot(all []candidate) []candidate {
	chosen, next := f.ledger.allot(all, time.Now())
	f.soon(next)
	return chosen
}

// soon makes the next look be at t at the latest, unless t is zero.
func (f *fetcher) soon(t time.Time) {
	if !t.IsZero() && t.Before(f.next) {
		f.next = t
	}
}
