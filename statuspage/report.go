package statuspage

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"example.com/awsretry"
	"example.com/awsretry/internal/redact"
)

// A report is what the page shows, and the JSON.
type report struct {
	Time       time.Time   `json:"time"`
	Transports []transport `json:"transports"`
	Others     []partition `json:"others"` // partitions that were observed, and that none of the Transports has
}

type transport struct {
	Name       string      `json:"name"`
	Error      string      `json:"error,omitempty"` // of Validate
	Mode       string      `json:"mode"`
	Settings   []setting   `json:"settings"` // that are not the default
	Partitions []partition `json:"partitions"`
}

type partition struct {
	Name        string       `json:"name"`
	State       *state       `json:"state"` // null: no Transport has the partition
	Minute      minute       `json:"minute"`
	LastFailure *lastFailure `json:"last_failure"`
}

// A state is that of a Transport's buckets.
type state struct {
	Tokens       *int     `json:"tokens"`        // null: there is no quota
	Capacity     *int     `json:"capacity"`      // null: there is no quota
	MeasuredRate *float64 `json:"measured_rate"` // null: there is no rate limiter
	SendRate     *float64 `json:"send_rate"`     // null: it is not limited
	Waiting      int      `json:"waiting"`
	ExpectedWait float64  `json:"expected_wait_seconds"`
	RetryAfter   float64  `json:"retry_after_seconds"`
	Limits       []limit  `json:"limits,omitempty"`
	Fleet        *fleet   `json:"fleet,omitempty"`
}

// A limit is what a service announced.
type limit struct {
	Name      string   `json:"name"`
	Quota     *float64 `json:"quota"` // null: not announced
	Remaining float64  `json:"remaining"`
	Reset     *float64 `json:"reset_seconds"` // null: not announced
	Refills   bool     `json:"refills"`
}

type fleet struct {
	Leased  bool     `json:"leased"`
	Members int      `json:"members"`
	Rate    *float64 `json:"rate"` // null: it is not limited
	Tokens  int      `json:"tokens"`
}

// A minute has the counts of the last one. Those of each second begin with the
// oldest.
type minute struct {
	Attempts  int            `json:"attempts"`
	Retries   int            `json:"retries"`
	Failed    int            `json:"failed"`
	Refused   int            `json:"refused"`
	Refusals  map[string]int `json:"refusals,omitempty"` // by Stop
	PerSecond perSecond      `json:"per_second"`
}

type perSecond struct {
	Attempts [span]uint32 `json:"attempts"`
	Retries  [span]uint32 `json:"retries"`
	Refusals [span]uint32 `json:"refusals"`
}

type lastFailure struct {
	Time    time.Time `json:"time"`
	Attempt int       `json:"attempt"`
	Class   string    `json:"class"`
	Status  int       `json:"status,omitempty"`
	Code    string    `json:"code,omitempty"`
	Error   string    `json:"error,omitempty"`
	Stop    string    `json:"stop,omitempty"` // "": it was retried
}

// newReport returns the report of a page.
func newReport(p *Page, now time.Time) *report {
	r := &report{Time: now.UTC(), Transports: []transport{}, Others: []partition{}}
	records := p.records()
	kept := make(map[string]bool)
	for i, t := range p.transports {
		shown := transport{
			Name: clean(p.names[i], maxText),
			Mode: clean(string(cmp.Or(t.Mode, awsretry.Standard)), maxText), Settings: settingsOf(t), Partitions: []partition{},
		}
		if shown.Name == "" && len(p.transports) > 1 {
			shown.Name = fmt.Sprint("Transport ", i+1)
		}
		if err := t.Validate(); err != nil {
			shown.Error = clean(redact.Error(err), 4*maxText)
		}
		for name, s := range t.Partitions() {
			kept[name] = true
			one := newPartition(name, records[name], now)
			one.State = newState(t, s)
			shown.Partitions = append(shown.Partitions, one)
		}
		inOrder(shown.Partitions)
		r.Transports = append(r.Transports, shown)
	}
	for name, record := range records {
		if !kept[name] {
			r.Others = append(r.Others, newPartition(name, record, now))
		}
	}
	inOrder(r.Others)
	return r
}

// inOrder sorts partitions: the failing ones, the troubled ones, and the others,
// each by their names.
func inOrder(partitions []partition) {
	slices.SortFunc(partitions, func(a, b partition) int {
		return cmp.Or(worse(a, b), cmp.Compare(a.Name, b.Name))
	})
}

// worse compares the troubles of two partitions. The worse one is less.
func worse(a, b partition) int {
	rank := []string{failing, troubled, calm}
	return slices.Index(rank, a.Trouble()) - slices.Index(rank, b.Trouble())
}

// The troubles of a partition, which are classes of the page's style.
const (
	calm     = ""
	troubled = "troubled" // requests wait, or were refused in the last minute
	failing  = "failing"  // all attempts of the last minute failed
)

// Trouble returns the worst of its troubles.
func (p partition) Trouble() string {
	s := p.State
	switch {
	case p.Minute.Attempts > 0 && p.Minute.Failed == p.Minute.Attempts:
		return failing
	case p.Minute.Refused > 0 || s != nil && (s.SendRate != nil || s.Waiting > 0 || s.RetryAfter > 0):
		return troubled
	}
	return calm
}

// newPartition returns a partition without its state. r is nil if none of its
// attempts was observed.
func newPartition(name string, r *record, now time.Time) partition {
	p := partition{Name: cleanName(name)}
	if r == nil {
		return p
	}
	seconds, last := r.minute(now)
	p.Minute = newMinute(&seconds)
	if last != nil {
		p.LastFailure = &lastFailure{
			Time: last.at.UTC(), Attempt: last.attempt, Class: last.class.String(), Status: last.status,
			Code: clean(last.code, maxText), Stop: clean(string(last.stop), maxText),
		}
		if last.err != "" {
			p.LastFailure.Error = clean(redact.Error(errors.New(last.err)), maxText)
		}
	}
	return p
}

func newMinute(seconds *[span]second) (m minute) {
	refused := func(stop string, n uint32) {
		if n == 0 {
			return
		}
		if m.Refusals == nil {
			m.Refusals = make(map[string]int)
		}
		m.Refusals[stop] += int(n)
	}
	for i := range seconds {
		s := &seconds[i]
		m.Attempts += int(s.sent)
		m.Retries += int(s.retries)
		m.Failed += int(s.failed)
		m.Refused += int(s.refusals)
		for j, n := range s.by {
			refused(string(refusals[j]), n)
		}
		refused("other", s.unnamedBy)
		m.PerSecond.Attempts[i], m.PerSecond.Retries[i], m.PerSecond.Refusals[i] = s.sent, s.retries, s.refusals
	}
	return m
}

func newState(t *awsretry.Transport, s awsretry.State) *state {
	shown := &state{Waiting: s.Waiting, ExpectedWait: s.ExpectedWait.Seconds(), RetryAfter: s.RetryAfter.Seconds()}
	if s.Capacity != math.MaxInt {
		shown.Tokens, shown.Capacity = &s.Tokens, &s.Capacity
	}
	if t.Mode == awsretry.Adaptive {
		shown.MeasuredRate = finite(s.MeasuredRate)
	}
	if s.Limited {
		shown.SendRate = finite(s.SendRate)
	}
	for _, l := range s.Limits {
		one := limit{Name: clean(redact.Text(l.Name), maxText), Refills: l.Refills}
		if remaining := finite(l.Remaining); remaining != nil {
			one.Remaining = *remaining
		}
		if l.Quota > 0 {
			one.Quota = finite(l.Quota)
		}
		if l.Reset >= 0 {
			one.Reset = finite(l.Reset.Seconds())
		}
		shown.Limits = append(shown.Limits, one)
	}
	if t.Shared != nil {
		shown.Fleet = &fleet{Leased: s.Fleet.Leased, Members: s.Fleet.Members, Tokens: s.Fleet.Tokens}
		if s.Fleet.Rate > 0 {
			shown.Fleet.Rate = finite(s.Fleet.Rate)
		}
	}
	return shown
}

// finite returns x, or nil if JSON has no such number.
func finite(x float64) *float64 {
	if math.IsInf(x, 0) || math.IsNaN(x) {
		return nil
	}
	return &x
}

// maxText is the length of the longest text that the page shows, in bytes.
const maxText = 300

// cleanName returns the name of a partition without what follows a question
// mark: a Partition function may return a URL.
func cleanName(name string) string {
	shown, _, query := strings.Cut(redact.Error(errors.New(name)), "?")
	if query {
		shown += "?…"
	}
	return clean(shown, maxText)
}

// clean returns a text on one line, at most n bytes of it.
func clean(text string, n int) string {
	text = strings.Join(strings.Fields(redact.Text(text)), " ")
	if len(text) <= n {
		return text
	}
	for n > 0 && !utf8.RuneStart(text[n]) {
		n--
	}
	return text[:n] + "…"
}
