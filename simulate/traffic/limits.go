package traffic

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"
)

// A limit is what a line says of one, as awsretry.Limit.
type limit struct {
	name             string
	quota, remaining float64       // quota 0: it is not announced
	reset            time.Duration // negative: it is not announced
	refills          bool
}

// An announcement is the limits of a line.
type announcement struct {
	limits []limit
	odd    bool // they cannot be read
}

const (
	mostSaid   = 16  // limits of a line; LogAllTo writes no more
	mostLimits = 100 // of all lines
)

// UnmarshalJSON returns no error: what cannot be read may be an attribute of
// another part of the program.
func (a *announcement) UnmarshalJSON(text []byte) error {
	*a = announcement{odd: true}
	var all string
	if json.Unmarshal(text, &all) != nil || strings.Count(all, ",") >= mostSaid {
		return nil
	}
	var limits []limit
	for one := range strings.SplitSeq(all, ", ") {
		l, ok := parseLimit(one)
		if !ok {
			return nil
		}
		limits = append(limits, l)
	}
	*a = announcement{limits: limits}
	return nil
}

// parseLimit reads a limit from its end, because its name may look like the
// rest.
func parseLimit(text string) (l limit, ok bool) {
	words := strings.Split(text, " ")
	last := len(words) - 1
	if last > 0 && words[last] == "refills" {
		l.refills = true
		last--
	}
	l.reset = -1
	if last > 0 && strings.HasSuffix(words[last], "s") {
		d, err := time.ParseDuration(words[last])
		if err != nil || d < 0 {
			return limit{}, false
		}
		if d <= longestTime {
			l.reset = d
		}
		last--
	}
	remaining, quota, given := strings.Cut(words[last], "/")
	l.remaining, ok = units(remaining)
	if given && ok {
		l.quota, ok = units(quota)
	}
	if last > 0 {
		l.name = clip(words[0])
	}
	return l, ok && last <= 1
}

func units(text string) (n float64, ok bool) {
	n, err := strconv.ParseFloat(text, 64)
	return n, err == nil && n >= 0 && n <= math.MaxFloat32
}

// announced is what the lines of a log announce.
type announced struct {
	odd        int64 // lines that cannot be read, or have too many limits
	of, silent int64 // responses that do not throttle, with and without limits

	// Attempts that were throttled though much was left of each limit, and
	// others.
	unexplained, explained int64

	limits map[string]*history // by their names
}

// hear adds what a line announces.
func (n *announced) hear(a attempt) {
	if a.said.odd {
		n.odd++
	}
	ample := true
	for _, said := range a.said.limits {
		h := n.limits[said.name]
		if h == nil {
			if len(n.limits) >= mostLimits {
				n.odd++
				return
			}
			h = new(history)
			n.limits[said.name] = h
		}
		h.hear(a, said)
		ample = ample && said.remaining >= max(1, said.quota/4, h.top/4)
	}
	switch none := len(a.said.limits) == 0; {
	case a.status == 0, none && a.throttled():
	case none:
		n.silent++
	case !a.throttled():
		n.of++
	case ample:
		n.unexplained++
	default:
		n.explained++
	}
}

// A history is what the lines say of one limit, in their order.
type history struct {
	lines       int64
	quota, top  float64 // the greatest that is announced, and the most that remained
	refills     int64   // lines that say so
	flowing     usage   // while a part was missing
	first, last sighting

	resets   int64 // lines that have one
	longest  time.Duration
	fraction bool // of a second, in some reset
	// The sums of squares and products of the resets, in seconds, and of what is
	// missing of the quota.
	xx, xy, yy float64
	windows    int64 // that began after the log
	used       usage // within the windows
	lies       int64 // requests that were admitted though nothing was left
}

// A usage is what became of the remaining units from line to line.
type usage struct {
	drop, seconds float64
	admitted      int64 // requests
}

func (u *usage) add(from, to sighting, admitted int64) {
	u.drop += from.remaining - to.remaining
	u.seconds += to.at.Sub(from.at).Seconds()
	u.admitted += admitted
}

// A sighting is what remained when a request was served, and when that is whole
// again.
type sighting struct {
	at, end   time.Time
	took      time.Duration
	remaining float64
}

func (h *history) hear(a attempt, said limit) {
	s := sighting{a.end.Add(-a.elapsed / 2), a.end.Add(said.reset - a.elapsed/2), a.elapsed, said.remaining}
	admitted := int64(1)
	if a.throttled() {
		admitted = 0
	}
	h.lines++
	h.quota, h.top = max(h.quota, said.quota), max(h.top, said.remaining)
	if said.refills {
		h.refills++
	}
	if said.reset >= 0 {
		h.resets++
		h.longest = max(h.longest, said.reset)
		h.fraction = h.fraction || said.reset%time.Second != 0
		x, y := said.reset.Seconds(), max(said.quota-said.remaining, 0)
		h.xx, h.xy, h.yy = h.xx+x*x, h.xy+x*y, h.yy+y*y
	}
	if h.lines == 1 {
		h.first, h.last = s, s
		return
	}
	if s.took > h.longest/4 && said.reset >= 0 { // which says little of when it was served
		h.used.admitted += admitted
		return
	}
	const most = 0.9 // of the units; a bucket that is full gets no more
	if size := most * max(said.quota, h.top); h.last.remaining < size && s.remaining < size {
		h.flowing.add(h.last, s, admitted)
	}
	switch off := s.end.Sub(h.last.end); {
	case off.Abs() <= h.tolerance(s):
		h.used.add(h.last, s, admitted)
		if h.last.remaining < 1 && s.at.Sub(h.last.at) > (s.took+h.last.took)/2 {
			h.lies += admitted
		}
	case off > 0:
		h.windows++
	}
	h.last = s
}

// tolerance returns how much the ends of a window may differ, because resets and
// the service's clock are rounded, and nobody knows when in an attempt its
// response was made.
func (h *history) tolerance(s sighting) time.Duration {
	rounding := 1500 * time.Millisecond
	if h.fraction {
		rounding = 50 * time.Millisecond
	}
	return min(rounding, h.longest/4) + (s.took+h.last.took)/2
}
