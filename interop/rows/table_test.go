package rows

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

// forever is as many requests as fail if all fail.
const forever = 1 << 30

// scenes are what befalls each kind of request of each call.
func scenes() []scene {
	all := []scene{
		{name: "503 twice", times: 2, fault: status(503)},
		{name: "429 with Retry-After", times: 1, asked: 3 * time.Second, fault: status(429, "Retry-After", "3")},
		{name: "503 with Retry-After", times: 1, asked: 3 * time.Second, fault: status(503, "Retry-After", "3")},
		{name: "429 with Retry-After-Ms", times: 1, asked: 2500 * time.Millisecond, fault: status(429, "Retry-After-Ms", "2500")},
		{name: "503 with x-ms-retry-after-ms", times: 1, asked: 2500 * time.Millisecond, fault: status(503, "X-Ms-Retry-After-Ms", "2500")},
		{name: "reset", times: 1, fault: reset},
		{name: "reset twice", times: 2, fault: reset},
		{name: "closed", times: 1, fault: closed},
		{name: "cut within the response", times: 1, fault: cut},
		{name: "executed and lost", times: 1, fault: lost},
		{name: "deadline", times: forever, fault: hang, ends: 20 * time.Second},
	}
	for _, code := range []int{
		400, 401, 403, 404, 408, 409, 410, 412, 416, 423, 425, 429, 499, 500, 501, 502, 503, 504, 505, 506, 507, 508, 509, 510, 511, 520, 522, 529, 599,
	} {
		all = append(all, scene{name: fmt.Sprint(code), times: 1, fault: status(code)})
	}
	return all
}

const longestAttempt = 5 * time.Second

// hangsOnce is a scene for clients that limit the time of an attempt.
var hangsOnce = scene{name: "hangs once, with a limit", times: 1, fault: hang, limit: longestAttempt}

// down is a scene that counts attempts.
var down = scene{name: "503 for a minute", times: forever, fault: status(503), ends: time.Minute}

// A measured is what the scenes showed of a row.
type measured struct {
	findings          []string
	scenes            int
	aloneOK, overOK   int
	alone, over, kept int // attempts while the service is down
}

// measure plays the scenes.
func (r row) measure(t *testing.T) (m measured) {
	for _, c := range r.calls {
		healthy := r.run(t, c, scene{}, "", false, 0)
		over := r.run(t, c, scene{}, "", true, 0)
		if healthy.err != nil || over.err != nil || fmt.Sprint(healthy.sent) != fmt.Sprint(over.sent) {
			t.Fatalf("%s: a healthy server:\nalone %v, %v\nover %v, %v", c.name, healthy.sent, healthy.err, over.sent, over.err)
		}
		all := append(scenes(), r.scenes...)
		if c.limited {
			all = append(all, hangsOnce)
		}
		for _, at := range healthy.keys {
			for _, s := range all {
				alone, over := r.run(t, c, s, at, false, 0), r.run(t, c, s, at, true, 0)
				m.add(fmt.Sprintf("%s: %s: %s", c.name, at, s.name), s, r.timed, healthy, alone, over)
			}
			alone, over := r.run(t, c, down, at, false, 0), r.run(t, c, down, at, true, 0)
			m.add(fmt.Sprintf("%s: %s: %s", c.name, at, down.name), down, r.timed, healthy, alone, over)
			if m.alone == 0 || !r.timed && alone.sent[at] > m.alone {
				m.alone, m.over, m.kept = alone.sent[at], over.sent[at], r.run(t, c, down, at, true, r.keep).sent[at]
			}
		}
	}
	return m
}

// add compares two runs of a scene. timed is that of the row.
func (m *measured) add(name string, s scene, timed bool, healthy, alone, over run) {
	m.scenes++
	if alone.err == nil {
		m.aloneOK++
	}
	if over.err == nil {
		m.overOK++
	}
	find := func(format string, args ...any) {
		m.findings = append(m.findings, name+": "+fmt.Sprintf(format, args...))
	}
	if alone.err == nil && over.err != nil {
		find("fails: %v", over.err)
	}
	for key, n := range over.sent {
		most := alone.sent[key]
		if timed {
			most = 2*most - 1
		}
		if n > max(over.attempts*max(healthy.sent[key], 1), most) {
			find("%d requests of %s instead of %d", n, key, alone.sent[key])
		}
		if most := max(healthy.sent[key], alone.executed[key]); over.executed[key] > most {
			find("%s is executed %d times instead of %d", key, over.executed[key], alone.executed[key])
		}
	}
	if s.asked > 0 && over.err == nil && alone.took >= s.asked && over.took < s.asked {
		find("waits %v instead of %v", over.took, alone.took)
	}
	if s.ends > 0 && over.took > max(alone.took, s.ends)+time.Second {
		find("ends after %v instead of %v", over.took, alone.took)
	}
	if errors.Is(alone.err, context.DeadlineExceeded) && over.err != nil && !errors.Is(over.err, context.DeadlineExceeded) && s.name == "deadline" {
		find("the error is %v", over.err)
	}
}

// check compares the findings of a row with the losses that it names.
func (r row) check(t *testing.T, m measured) {
	found := make([]bool, len(r.losses))
	for _, finding := range m.findings {
		explained := false
		for i, l := range r.losses {
			if regexp.MustCompile(l.finds).MatchString(finding) {
				explained, found[i] = true, true
			}
		}
		if !explained {
			t.Errorf("%s", finding)
		}
	}
	for i, l := range r.losses {
		if !found[i] {
			t.Errorf("no scene shows the loss %q", l.text)
		}
	}
	if r.keep > 0 && m.kept != m.alone {
		t.Errorf("%d attempts alone, and %d with MaxAttempts: %d", m.alone, m.kept, r.keep)
	}
}

var update = flag.Bool("update", false, "write the table instead of comparing with it")

const (
	page  = "../../docs/CLIENTS.md"
	begin = "<!-- make clients writes this table. -->\n\n"
	end   = "\n<!-- The end of the table. -->\n"
)

// Over a Transport no call fails that succeeds alone, and no request is multiplied,
// except as the row says. The table is that of docs/CLIENTS.md.
func TestRows(t *testing.T) {
	var table strings.Builder
	table.WriteString("| client | over a Transport | attempts alone | over | as many with `MaxAttempts` | succeed alone, over | lost |\n|---|---|---|---|---|---|---|\n")
	for _, r := range rows {
		t.Run(strings.ReplaceAll(r.client+" "+r.name, "/", "-"), func(t *testing.T) {
			m := r.measure(t)
			r.check(t, m)
			table.WriteString(r.line(t, m))
		})
	}
	if strings.Count(table.String(), "\n") != len(rows)+2 {
		return // -run chose some, or one did not end
	}
	t.Log("\n" + table.String())
	before, rest, ok1 := strings.Cut(read(t, page), begin)
	written, after, ok2 := strings.Cut(rest, end)
	if !ok1 || !ok2 {
		t.Fatalf("%s has no %q and %q", page, begin, end)
	}
	if *update {
		if err := os.WriteFile(page, []byte(before+begin+table.String()+end+after), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if written != table.String() {
		t.Errorf("%s does not have the table; make clients writes it", page)
	}
}

// line returns the row of the table.
func (r row) line(t *testing.T, m measured) string {
	name, alone, keep, lost := "`"+r.client+"` "+version(t, r.client), fmt.Sprint(m.alone), "", []string{}
	if r.name != "" {
		name += ", " + r.name
	}
	if r.repeats != "" {
		alone = r.repeats
	}
	if r.keep > 0 {
		keep = fmt.Sprint(r.keep)
	}
	for _, l := range r.losses {
		lost = append(lost, l.text)
	}
	if len(lost) == 0 {
		lost = []string{"nothing"}
	}
	return fmt.Sprintf("| %s | %s | %s | %d | %s | %d, %d of %d | %s |\n", name, r.how, alone, m.over,
		keep, m.aloneOK, m.overOK, m.scenes, strings.Join(lost, "; "))
}

// version returns the version of a module in go.mod.
func version(t *testing.T, module string) string {
	found := regexp.MustCompile(`\s` + regexp.QuoteMeta(module) + ` (v\S+)`).FindStringSubmatch(read(t, "go.mod"))
	if found == nil {
		t.Fatalf("go.mod does not require %s", module)
	}
	return found[1]
}

func read(t *testing.T, name string) string {
	text, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// respond returns a handler with a response of that type. header has more names and
// values.
func respond(code int, kind, body string, header ...string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if kind != "" {
			w.Header().Set("Content-Type", kind)
		}
		w.Header().Set("Content-Length", fmt.Sprint(len(body)))
		for i := 0; i < len(header); i += 2 {
			w.Header().Set(header[i], header[i+1])
		}
		w.WriteHeader(code)
		_, _ = w.Write([]byte(body)) // fails if the client has gone
	}
}
