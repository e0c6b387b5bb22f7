package statuspage

import (
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strconv"
	"strings"
	"time"
)

// A view is a report with what the page says about it in words. The template
// calls its methods, and those of its parts.
type view struct {
	*report
	Style   template.CSS
	Refresh int    // seconds; 0: the page stays as it is
	Trouble []card // the partitions in trouble, which are not in the lists of the report
	Hidden  int    // partitions that are not on the page
}

// A card is a partition on the page.
type card struct {
	View *view
	Of   string // the Transport's name
	partition
}

func newView(r *report, refreshes bool) *view {
	v := &view{report: r, Style: template.CSS(style)}
	if refreshes {
		v.Refresh = int(refresh / time.Second)
	}
	for i := range r.Transports {
		v.takeTrouble(r.Transports[i].Name, &r.Transports[i].Partitions)
	}
	if len(r.Transports) == 0 {
		v.takeTrouble("", &r.Others)
	} else {
		v.takeTrouble("other partition", &r.Others)
	}
	slices.SortStableFunc(v.Trouble, func(a, b card) int { return worse(a.partition, b.partition) })
	left := shownAtOnce
	v.Trouble = few(v, v.Trouble, &left)
	for i := range r.Transports {
		r.Transports[i].Partitions = few(v, r.Transports[i].Partitions, &left)
	}
	r.Others = few(v, r.Others, &left)
	return v
}

// takeTrouble moves the partitions in trouble, which are the first of a list.
func (v *view) takeTrouble(of string, list *[]partition) {
	for len(*list) > 0 && (*list)[0].Trouble() != calm {
		v.Trouble = append(v.Trouble, card{v, of, (*list)[0]})
		*list = (*list)[1:]
	}
}

// few returns as many of all as there is room left for.
func few[T any](v *view, all []T, left *int) []T {
	n := min(len(all), *left)
	*left -= n
	v.Hidden += len(all) - n
	return all[:n]
}

// Card returns a partition as the template needs it.
func (v *view) Card(p partition) card { return card{v, "", p} }

// Without returns what the section of a Transport says if it has no partition.
func (v *view) Without(t transport) string {
	if slices.ContainsFunc(v.Trouble, func(c card) bool { return c.Of == t.Name }) {
		return "All its partitions are in trouble."
	}
	return "No requests yet."
}

// Full returns how full the bucket is, from 0 to 100.
func (s *state) Full() float64 {
	if s.Capacity == nil || *s.Capacity <= 0 {
		return 0
	}
	return round(100 * min(1, float64(*s.Tokens)/float64(*s.Capacity)))
}

// Held returns what holds the requests back, or nil.
func (s *state) Held() (all []string) {
	if s.RetryAfter > 0 {
		all = append(all, "Retry-After for "+seconds(s.RetryAfter))
	}
	if s.SendRate != nil {
		all = append(all, "paced")
	}
	if s.Waiting > 0 {
		all = append(all, fmt.Sprint(s.Waiting, " waiting"))
	}
	return all
}

// Line returns how many requests wait, and for how long.
func (s *state) Line() string {
	if s.Waiting == 0 && s.ExpectedWait == 0 {
		return "none"
	}
	return fmt.Sprintf("%d, expected wait %s", s.Waiting, seconds(s.ExpectedWait))
}

// Asked returns how long a shared Retry-After is in force.
func (s *state) Asked() string {
	if s.RetryAfter == 0 {
		return "none in force"
	}
	return seconds(s.RetryAfter) + " left"
}

// String returns what is left of a limit.
func (l limit) String() string {
	text := number(l.Remaining)
	if l.Quota != nil {
		text += " of " + number(*l.Quota)
	}
	text += " left"
	if l.Reset != nil {
		text += ", whole again in " + seconds(*l.Reset)
	}
	return text
}

// String returns how many processes share the buckets.
func (f *fleet) String() string {
	if !f.Leased {
		return "no grant in force"
	}
	text := fmt.Sprintf("%d Transports, %d tokens", f.Members, f.Tokens)
	if f.Rate != nil {
		text += ", " + rate(*f.Rate)
	}
	return text
}

// Rate returns a rate in words.
func (s *state) Rate(perSecond *float64) string {
	if perSecond == nil {
		return "not limited"
	}
	return rate(*perSecond)
}

// Rate returns a rate in words.
func (v *view) Rate(perSecond *float64) string { return rate(*perSecond) }

// First returns how many of the attempts were the first of their call.
func (m minute) First() int { return m.Attempts - m.Retries }

// By returns the refusals by their Stop, the most frequent first, as in "quota
// 10, deadline 2".
func (m minute) By() string {
	var all []string
	for stop := range m.Refusals {
		all = append(all, stop)
	}
	slices.SortFunc(all, func(a, b string) int {
		return cmp.Or(cmp.Compare(m.Refusals[b], m.Refusals[a]), cmp.Compare(a, b))
	})
	for i, stop := range all {
		all[i] = fmt.Sprint(stop, " ", m.Refusals[stop])
	}
	return strings.Join(all, ", ")
}

// Ago returns how long before the page was made a time was.
func (v *view) Ago(t time.Time) string {
	return max(v.Time.Sub(t), 0).Round(time.Second).String() + " ago"
}

func rate(perSecond float64) string { return number(perSecond) + "/s" }

// number returns x with three digits at least.
func number(x float64) string {
	precision := 0
	switch {
	case x < 10:
		precision = 2
	case x < 100:
		precision = 1
	}
	text := strconv.FormatFloat(x, 'f', precision, 64)
	if strings.Contains(text, ".") {
		text = strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
	return text
}

func seconds(s float64) string {
	d := time.Duration(min(s, 1e9) * float64(time.Second))
	if d < 10*time.Second {
		return d.Round(10 * time.Millisecond).String()
	}
	return d.Round(time.Second).String()
}
