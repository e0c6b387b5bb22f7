package traffic

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A Log is what [Read] gathered.
type Log struct {
	Lines Lines

	strays      int            // consecutive lines that were astray, near one time
	stray       time.Time      // the time of the last of them
	host        string         // "": all
	hosts       map[string]int // attempts
	codes       map[string]int // of throttled attempts
	first, last time.Time      // of the lines: when attempts ended
	begin       time.Time      // when the first attempt began
	part        window         // the part that is counted; the zero value: all

	counts *bins[count]
	spans  *bins[times]
	stops  map[string]int64
	causes map[string]int64 // of errors: the status, or "no response"

	announced announced

	highest     int // the highest number of an attempt
	limit       int // of attempts: the number of an attempt that it stopped
	most        int // attempts that a call may make, according to the lines
	setting     string
	known       Known
	waits       int64         // attempts that waited for their turn
	longestWait time.Duration // of those attempts
	successes   int64
	timeouts    *hdrhistogram.Histogram // of attempts
	throttles   *hdrhistogram.Histogram // elapsed of throttled attempts
	failures    *hdrhistogram.Histogram // elapsed of failed ones
	deadlines   *hdrhistogram.Histogram // of calls that ended with their context
	delays      *hdrhistogram.Histogram // after a first attempt that was throttled
	noTotal     int64                   // calls of several attempts whose first one is unknown
	open        map[string]time.Time    // when calls began that have not ended, by ID
	swept       time.Time               // when old entries of open were last removed
	continuing  int64                   // retries that must follow
	followed    int64                   // retries
}

// A count is what happened in a bin. Attempts count where they began.
type count struct {
	started, ended               int64 // calls
	sent                         int64 // attempts
	throttled, errored, timeouts int64 // attempts
	permanent                    int64
	good                         int64         // calls, where they ended
	bad                          int64         // the same
	worked                       time.Duration // on attempts that were not throttled
}

// times are the times in a bin, in microseconds.
type times struct {
	served *hdrhistogram.Histogram // attempts that the service worked on
	calls  *hdrhistogram.Histogram // that succeeded
}

const (
	mostCounts = 1 << 16
	mostTimes  = 1024 // two minutes each, if the log is of a day
	mostHosts  = 1000 // that are counted separately
	mostCodes  = 100

	mostOpen    = 100_000 // calls that have not ended
	longestOpen = 10 * time.Minute
)

// newHistogram returns a histogram of durations in microseconds, up to a day, with
// an error of less than a hundredth.
func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(1, longestTime.Microseconds(), 2)
}

func record(h **hdrhistogram.Histogram, d time.Duration) {
	if *h == nil {
		*h = newHistogram()
	}
	recordTimes(*h, d.Microseconds(), 1)
}

// recordTimes records a number of equal times in microseconds.
func recordTimes(h *hdrhistogram.Histogram, microseconds, times int64) {
	_ = h.RecordValues(min(max(microseconds, 0), longestTime.Microseconds()), times) // the value is in its range
}

func newLog(host string) *Log {
	return &Log{
		host: strings.ToLower(host), hosts: map[string]int{}, codes: map[string]int{},
		stops: map[string]int64{}, causes: map[string]int64{}, open: map[string]time.Time{},
		announced: announced{limits: map[limitKey]*history{}},
		counts:    newBins(mostCounts, 10*time.Millisecond, (*count).add),
		spans:     newBins(mostTimes, time.Second, (*times).add),
	}
}

func (c *count) add(d count) {
	c.started += d.started
	c.ended += d.ended
	c.sent += d.sent
	c.throttled += d.throttled
	c.errored += d.errored
	c.timeouts += d.timeouts
	c.permanent += d.permanent
	c.good += d.good
	c.bad += d.bad
	c.worked += d.worked
}

// failed returns how many attempts failed temporarily.
func (c count) failed() int64 { return c.throttled + c.errored + c.timeouts }

func (t *times) add(from times) {
	add(&t.served, from.served)
	add(&t.calls, from.calls)
}

// add adds from, which may be nil, to into.
func add(into **hdrhistogram.Histogram, from *hdrhistogram.Histogram) {
	if from == nil {
		return
	}
	if *into == nil {
		*into = newHistogram()
	}
	(*into).Merge(from)
}

// add adds an attempt.
func (l *Log) add(a attempt) {
	if l.part != (window{}) && !l.part.near(a) {
		return
	}
	if l.astray(a.end) {
		l.Lines.Astray++
		return
	}
	tally(l.hosts, a.host, mostHosts)
	if l.host != "" && a.host != l.host {
		l.Lines.OtherHosts++
		return
	}
	if l.Lines.Used == 0 || a.end.Before(l.first) {
		l.first = a.end
	}
	if l.Lines.Used == 0 || a.end.After(l.last) {
		l.last = a.end
	}
	if start := a.called(); l.Lines.Used == 0 || start.Before(l.begin) {
		l.begin = start
	}
	l.Lines.Used++
	l.most = max(l.most, a.most)
	if a.setting != "" {
		l.setting = a.setting
	}
	if a.number > 0 {
		l.attempt(a)
	} else if _, retried := l.open[a.id]; !retried {
		l.counts.at(a.end).started++
	}
	if a.stop != "" {
		l.call(a)
	}
}

// astray reports whether a line is more than a day away from the others. If many
// lines agree on such a time, it is the time of the log: the program was stopped
// for a while, or its clock was wrong at first.
func (l *Log) astray(end time.Time) bool {
	const day, many, longest = 24 * time.Hour, 100, 30 * 24 * time.Hour
	before, after := l.first.Sub(end), end.Sub(l.last)
	if l.Lines.Used == 0 || before <= day && after <= day {
		l.strays = 0
		return false
	}
	if end.Sub(l.stray).Abs() > day {
		l.strays = 0
	}
	l.strays++
	l.stray = end
	switch {
	case l.strays < many:
		return true
	case l.Lines.Used < many:
		lines := l.Lines
		lines.Used, lines.Astray = 0, lines.Astray+lines.Used
		known := l.known
		*l = *newLog(l.host)
		l.Lines, l.known = lines, known
		return false
	}
	return before > longest || after > longest
}

// tally counts a name, up to a number of names.
func tally[N int | int64](names map[string]N, name string, most int) {
	if _, ok := names[name]; !ok && len(names) >= most {
		name = "others"
	}
	names[name]++
}

func (l *Log) attempt(a attempt) {
	l.announced.hear(a)
	l.highest = max(l.highest, a.number)
	if a.waited > 0 {
		l.waits++
		l.longestWait = max(l.longestWait, a.waited)
	}
	if a.number == 1 {
		l.counts.at(a.called()).started++
	} else {
		l.followed++
	}
	c := l.counts.at(a.start())
	c.sent++
	if !a.throttled() {
		c.worked += a.elapsed
	}
	switch {
	case a.throttled():
		c.throttled++
		tally(l.codes, a.code, mostCodes)
		record(&l.throttles, a.elapsed)
	case a.class == classTimeout:
		c.timeouts++
		record(&l.timeouts, a.elapsed)
	case a.class == classTransient:
		c.errored++
		cause := "no response"
		if a.status != 0 {
			cause = fmt.Sprint("status ", a.status)
		}
		l.causes[cause]++
		record(&l.failures, a.elapsed)
	default:
		if a.class == classPermanent {
			c.permanent++
		}
		if a.status != 0 {
			record(&l.spans.at(a.start()).served, a.elapsed)
		}
	}
	if a.stop != "" {
		return
	}
	l.continuing++
	if a.number == 1 {
		l.begun(a)
		if a.throttled() {
			record(&l.delays, a.delay)
		}
	}
}

// begun records when a call began that has not ended. If there are many, it forgets
// the oldest ones, because a call that ends during a delay logs nothing.
func (l *Log) begun(a attempt) {
	if a.id == "" {
		return
	}
	if len(l.open) >= mostOpen && a.end.Sub(l.swept) > longestOpen/10 {
		l.swept = a.end
		maps.DeleteFunc(l.open, func(_ string, began time.Time) bool { return a.end.Sub(began) > longestOpen })
	}
	if len(l.open) < mostOpen {
		l.open[a.id] = a.called()
	}
}

// call counts a call by its last attempt.
func (l *Log) call(a attempt) {
	tally(l.stops, clip(a.stop), mostCodes)
	c := l.counts.at(a.end)
	c.ended++
	took, known := a.waited+a.elapsed, true
	if a.number > 1 {
		var began time.Time
		if began, known = l.open[a.id]; known {
			took = a.end.Sub(began)
			delete(l.open, a.id)
		} else {
			l.noTotal++
		}
	}
	if a.class == classSuccess {
		c.good++
		l.successes++
		if known {
			record(&l.spans.at(a.end).calls, took)
		}
	} else {
		c.bad++
	}
	switch {
	case a.stop == "max_attempts":
		l.limit = max(l.limit, a.number)
	case (a.stop == "deadline" || a.stop == "canceled") && known && a.number > 0:
		record(&l.deadlines, took)
	}
}

// common returns the most frequent name.
func common(names map[string]int) string {
	best := ""
	for _, name := range slices.Sorted(maps.Keys(names)) {
		if best == "" || names[name] > names[best] {
			best = name
		}
	}
	return best
}

// hostList returns the most frequent hosts.
func (l *Log) hostList() string {
	all := slices.SortedFunc(maps.Keys(l.hosts), func(a, b string) int {
		return cmp.Or(cmp.Compare(l.hosts[b], l.hosts[a]), strings.Compare(a, b))
	})
	const few = 5
	var parts []string
	for _, host := range all[:min(len(all), few)] {
		parts = append(parts, fmt.Sprintf("%q (%d)", host, l.hosts[host]))
	}
	if len(all) > few {
		parts = append(parts, fmt.Sprintf("and %d more", len(all)-few))
	}
	return strings.Join(parts, ", ")
}
