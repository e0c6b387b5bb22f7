package traffic

import (
	"encoding/json"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// A limit is one limit in a line, as awsretry.Limit.
type limit struct {
	name             string
	quota, remaining float64       // quota 0: not announced
	reset            time.Duration // negative: not announced
	refills          bool
}

// An announcement is the limits of a line.
type announcement struct {
	limits []limit
	odd    bool // they cannot be read
}

const (
	mostSaid   = 16  // limits of a line; retrylog writes no more
	mostLimits = 100 // of all lines
	mostQuotas = 100 // of one limit
)

// UnmarshalJSON never returns an error: an attribute that it cannot read may be
// from another part of the program.
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

// parseLimit parses a limit from its end, because its name may look like the rest.
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

// announced has the limits that the lines of a log announce.
type announced struct {
	odd        int64 // lines that cannot be read, or have too many limits
	of, silent int64 // responses that do not throttle, with and without limits

	// Attempts that were throttled although much was left of each limit, and other
	// throttled attempts.
	unexplained, explained int64

	limits map[limitKey]*history
}

type limitKey struct{ host, name string }

// hear adds what a line announces.
func (n *announced) hear(a attempt) {
	if a.said.odd {
		n.odd++
	}
	ample := true
	for _, said := range a.said.limits {
		key := limitKey{a.host, said.name}
		h := n.limits[key]
		if h == nil {
			if len(n.limits) >= mostLimits {
				n.odd++
				return
			}
			h = &history{quotas: map[float64]int64{}}
			n.limits[key] = h
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

// A history is what the lines say about one limit, in order.
type history struct {
	lines   int64
	quotas  map[float64]int64 // lines
	top     float64           // the most that remained
	least   float64           // the least, if there are lines
	refills int64             // lines that say so

	resets            int64 // lines that have one
	longest, shortest time.Duration
	fraction          bool // of a second, in some reset
	// The sums of squares and products of the resets, in seconds, and of the units
	// that were missing from the quota.
	xx, xy, yy float64

	windows ends
	last    sighting
	flowing usage // while a part was missing
}

// A usage is how the remaining units changed from line to line.
type usage struct {
	drop, seconds float64
	admitted      int64 // requests
}

// A sighting is what remained when a request was served.
type sighting struct {
	start, at, told time.Time
	remaining       float64
}

func (h *history) hear(a attempt, said limit) {
	s := sighting{a.start(), a.end.Add(-a.elapsed / 2), a.end, said.remaining}
	admitted := int64(1)
	if a.throttled() {
		admitted = 0
	}
	if h.lines == 0 {
		h.least = said.remaining
	}
	h.lines++
	if len(h.quotas) < mostQuotas || h.quotas[said.quota] > 0 {
		h.quotas[said.quota]++
	}
	h.top, h.least = max(h.top, said.remaining), min(h.least, said.remaining)
	if said.refills {
		h.refills++
	}
	if said.reset >= 0 {
		h.hearReset(said)
		h.windows.hear(s, said.reset, h.rounding(), max(said.quota, h.top), admitted)
	}
	const most = 0.9 // of the units: a full bucket is not refilled
	if size := most * max(said.quota, h.top); h.lines > 1 && h.last.remaining < size && s.remaining < size {
		h.flowing.drop += h.last.remaining - s.remaining
		h.flowing.seconds += s.at.Sub(h.last.at).Seconds()
		h.flowing.admitted += admitted
	}
	h.last = s
}

func (h *history) hearReset(said limit) {
	if h.resets == 0 {
		h.shortest = said.reset
	}
	h.resets++
	h.longest, h.shortest = max(h.longest, said.reset), min(h.shortest, said.reset)
	h.fraction = h.fraction || said.reset%time.Second != 0
	x, y := said.reset.Seconds(), max(said.quota-said.remaining, 0)
	h.xx, h.xy, h.yy = h.xx+x*x, h.xy+x*y, h.yy+y*y
}

// rounding returns how far a reset may be off, because it and the service's clock
// were rounded.
func (h *history) rounding() time.Duration {
	if h.fraction {
		return min(50*time.Millisecond, h.longest/4)
	}
	return min(1500*time.Millisecond, h.longest/4)
}

// brief reports whether the windows are too short to be distinguished by resets in
// whole seconds.
func (h *history) brief() bool { return !h.fraction && h.longest <= 5*time.Second }

// ends are the ends of a limit's windows.
type ends struct {
	begun time.Time // the first line of the current one
	// The end of the current window is a mean: end is that of the first line, whose
	// request took elapsed, and offset is the sum of the differences from it of the
	// lines whose requests took no longer.
	end     time.Time
	elapsed time.Duration
	offset  time.Duration
	lines   int64

	low sighting // the first one with the least that remained in the current window

	between *hdrhistogram.Histogram // the times between two ends
	moved   int64                   // lines with a later end, before the window has ended
	back    int64                   // lines with an earlier end than a line before
	lies    int64                   // requests that were admitted although nothing was left
	rises   int64                   // lines with more left than before, by a quarter of the quota
	used    usage                   // after the first lines of the windows
}

// hear adds a line, whose reset may be off by rounding.
func (w *ends) hear(s sighting, reset, rounding time.Duration, size float64, admitted int64) {
	end, elapsed := s.at.Add(reset), s.told.Sub(s.start)
	current := w.end
	if w.lines > 0 {
		current = current.Add(w.offset / time.Duration(w.lines))
	}
	off, tolerance := end.Sub(current), rounding+(elapsed+w.elapsed)/2
	switch {
	case w.lines == 0:
	case off < -tolerance && s.start.Before(w.begun): // it is of the window before
		w.used.admitted += admitted
		return
	case off < -tolerance:
		w.back++
		return
	case off <= tolerance:
		if elapsed <= w.elapsed { // a slower response shows the end less exactly
			w.offset += end.Sub(w.end)
			w.lines++
		}
		w.used.admitted += admitted
		if admitted > 0 && w.low.remaining < 1 && s.start.After(w.low.told) {
			w.lies++
		}
		switch {
		case s.remaining < w.low.remaining:
			w.used.drop += w.low.remaining - s.remaining
			w.low = s
		case s.remaining > w.low.remaining+size/4 && s.start.After(w.low.told):
			w.rises++
		}
		return
	case s.at.Before(current.Add(-tolerance)):
		w.moved++
	default:
		record(&w.between, off)
	}
	w.begun, w.end, w.elapsed, w.offset, w.lines, w.low = s.at, end, elapsed, 0, 1, s
}
