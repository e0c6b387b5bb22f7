package limitheaders

import (
	"fmt"
	"maps"
	"math"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// A recording is a case of testdata/services.txt.
type recording struct {
	source string
	header http.Header
	limits []string
}

// read returns what Append does.
func read(header http.Header) []Limit { return Append(make([]Limit, 0, MostRead), header, time.Now) }

func recordings(t *testing.T) (all []recording) {
	t.Helper()
	text, err := os.ReadFile("testdata/services.txt")
	if err != nil {
		t.Fatal(err)
	}
	for _, part := range strings.Split(string(text), "\n# ")[1:] {
		r := recording{header: http.Header{}}
		for i, line := range strings.Split(strings.TrimSpace(part), "\n") {
			if limit, ok := strings.CutPrefix(line, "-> "); ok {
				r.limits = append(r.limits, limit)
			} else if i == 0 {
				r.source = line
			} else if key, value, ok := strings.Cut(line, ": "); ok {
				r.header.Add(key, value)
			} else {
				t.Fatalf("%s: %q", r.source, line)
			}
		}
		all = append(all, r)
	}
	return all
}

// The clock of a recording without a date is at the beginning of a day.
func TestAppendOfServices(t *testing.T) {
	all := recordings(t)
	synctest.Test(t, func(t *testing.T) { testRecordings(t, all) })
}

func testRecordings(t *testing.T, all []recording) {
	for _, r := range all {
		var got []string
		for _, l := range read(r.header) {
			reset, how := "none", "window"
			if l.Reset != -1 {
				reset = l.Reset.String()
			}
			if l.Refills {
				how = "refills"
			}
			got = append(got, fmt.Sprintf("%q %.10g %.10g %s %s", l.Name, l.Quota, l.Remaining, reset, how))
		}
		if !slices.Equal(got, r.limits) {
			t.Errorf("%s: %q, want %q", r.source, got, r.limits)
		}
	}
}

// What Append returns of X-RateLimit-Remaining, -Limit and -Reset.
func TestAppendIgnores(t *testing.T) {
	const year = 365 * 24 * time.Hour
	synctest.Test(t, func(t *testing.T) { // 2000-01-01, Unix time 946684800
		for _, c := range []struct {
			remaining, quota, reset string
			want                    string
		}{
			{"3", "10", "60", "3 of 10, 1m0s"},
			{"3", "-1", "60", "3 of 0, 1m0s"},
			{"3", "ten", "60", "3 of 0, 1m0s"},
			{"3", "1e400", "60", "3 of 0, 1m0s"},
			{"3", "10", "946684860", "3 of 10, 1m0s"},
			{"3", "10", "946684860000", "3 of 10, 1m0s"},
			{"3", "10", "946684740", "3 of 10, -1ns"}, // passed
			{"3", "10", "-1", "3 of 10, -1ns"},
			{"3", "10", "soon", "3 of 10, -1ns"},
			{"3", "10", "1e300", fmt.Sprint("3 of 10, ", 100*year)},
			{"3", "10", "Fri, 31 Dec 9999 23:59:59 GMT", fmt.Sprint("3 of 10, ", 100*year)},
			{"3", "10", "2562047h", fmt.Sprint("3 of 10, ", 100*year)},
			{"0", "10", "86400", "0 of 10, 24h0m0s"},
			{"0", "10", "86401", ""},
			{"1", "10", "86401", "1 of 10, 24h0m1s"},
			{" 3\t", "10", "60", "3 of 10, 1m0s"},
			{"-1", "10", "60", ""},
			{"", "10", "60", ""},
			{"50%", "100%", "60", ""},
			{"0", "0", "60", ""},
			{"5", "0", "60", "5 of 0, 1m0s"},
			{"11", "10", "60", "11 of 0, 1m0s"},
			{"14", "1, 1;w=1, 900;w=9, 15;w=60", "60", "14 of 15, 1m0s"},
			{"50, 0", "100, 10", "3600, 60", "0 of 10, 1m0s"},
			{"50, , 7", "100", "3600, 60", "7 of 100, 1h0m0s"},
			{"5, 0", "10, 100", "60, 86401", "5 of 10, 1m0s"},
			{"a/b;5", "10", "60", "5 of 10, 1m0s"},
			{"", "3/10", "60", "7 of 10, 1m0s"},
			{"", "11/10", "60", ""},
			{"0, 0", "0, 0", "60", ""},
			{"3", "10", "1m30s", "3 of 10, 1m30s"},
			{"3", "10", "2000-01-01T00:01:00+00:00", "3 of 10, 1m0s"},
			{"Inf", "10", "60", ""},
			{"3\x00", "10", "60", ""},
		} {
			got := ""
			for _, l := range read(http.Header{
				"X-Ratelimit-Remaining": {c.remaining}, "X-Ratelimit-Limit": {c.quota}, "X-Ratelimit-Reset": {c.reset},
			}) {
				got += fmt.Sprintf("%v of %v, %v", l.Remaining, l.Quota, l.Reset)
			}
			if got != c.want {
				t.Errorf("%q, %q, %q: %q, want %q", c.remaining, c.quota, c.reset, got, c.want)
			}
		}
	})
}

func TestAppendOfOddHeaders(t *testing.T) {
	many, first := http.Header{}, ""
	for i := range 1000 {
		many.Set(fmt.Sprintf("X-RateLimit-Remaining-Kind%03d", i), "1")
		if i < 7 {
			first += fmt.Sprintf(" kind%03d=1", i)
		}
	}
	many.Set("RateLimit-Remaining", "5")
	for _, c := range []struct {
		header http.Header
		want   string
	}{
		{nil, ""},
		{http.Header{"X-Ratelimit-Remaining": {}, "Ratelimit": {}, "Date": {}}, ""},
		{http.Header{"X-Ratelimit-Remaining": {"3", "4"}}, "=3"},
		{http.Header{"X-Ratelimit-Remaining": {"4", "3"}}, "=3"},
		{http.Header{"x-RATELIMIT-remaining": {"3"}, "X-Ratelimit-Remaining": {"4"}, "X-Rate-Limit-Remaining": {"5"}}, "=3"},
		{http.Header{"Ratelimit-Remaining": {"5"}, "X-Ratelimit-Remaining": {"3"}}, "=3"},
		{http.Header{"Ratelimit-Remaining": {"3"}, "X-Ratelimit-Remaining": {"5"}}, "=3"},
		{http.Header{"RateLimit": {`"a";r=1`}, "Ratelimit": {`"b";r=1`}}, "a=1"},
		{http.Header{"ratelimit": {`"a";r=1`, `"b";r=2`}}, "a=1 b=2"},
		{http.Header{"Ratelimit": {`"a";r=0`}, "Ratelimit-Policy": {`"a";q=9;w=86401`}}, ""},
		{http.Header{"Ratelimit": {`"a";r=0`}, "Ratelimit-Policy": {`"a";q=9;w=86401, "b`}}, "a=0"},
		{http.Header{"Ratelimit": {`remaining=1, reset=5`}}, "=1"},
		{http.Header{"Ratelimit": {`"a";r=1, "a";r=0, 7;r=1, ("b");r=1`}}, "a=0"},
		{http.Header{"Ratelimit": {`"a";r=1, "b`}, "X-Ratelimit-Remaining": {"3"}}, "=3"},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "Age": {"0"}}, "=3"},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "Age": {"1"}}, ""},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Cache": {"MISS, HIT"}}, ""},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Cache": {"TCP_HIT from a"}}, ""},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "X-Cache": {"MISS from white-list"}}, "=3"},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "Cache-Status": {`ExampleCache; hit; ttl=30`}}, ""},
		{http.Header{"X-Ratelimit-Remaining": {"3"}, "Cache-Status": {`ExampleCache; fwd=miss`}}, "=3"},
		{http.Header{"X-Ratelimit-Remaining": {"0"}}, "=0"},
		{http.Header{"X-Shopify-Shop-Api-Call-Limit": {"41/40"}}, ""},
		{http.Header{"X-Ratelimit-Remaining-": {"3"}, "X-Ratelimit-Remainings": {"3"}, "Ratelimitx": {"3"}}, ""},
		{http.Header{"X-Ratelimit-Resource-Remaining-Tokens": {"3"}}, "resource-tokens=3"},
		{many, "=5" + first},
	} {
		for range 20 { // orders of the map
			var got []string
			for _, l := range read(c.header) {
				got = append(got, fmt.Sprintf("%s=%v", l.Name, l.Remaining))
			}
			if text := strings.Join(got, " "); text != c.want {
				t.Fatalf("%v: %q, want %q", c.header, text, c.want)
			}
		}
	}
}

// A reset in whole minutes says nothing of a shorter window.
func TestResetInMinutes(t *testing.T) {
	for after, want := range map[int]time.Duration{
		-1: 9 * time.Second, 0: 0, 9: 9 * time.Second, 60: 9 * time.Second,
		59: 59 * time.Second, 120: 2 * time.Minute, // such as a penalty
	} {
		got := read(http.Header{"Ratelimit": {fmt.Sprintf(`"a";r=1;t=%d`, after)}, "Ratelimit-Policy": {`"a";q=5;w=9`}})
		if len(got) != 1 || got[0].Reset != want {
			t.Errorf("t=%d: %+v, want %v", after, got, want)
		}
	}
}

// A reset is that of all limits only if it is not that of one.
func TestSharedReset(t *testing.T) {
	header := http.Header{"X-Ratelimit-Reset": {"60"}, "X-Ratelimit-Remaining-Tokens": {"7"}}
	for _, want := range []time.Duration{time.Minute, -1} {
		limits := read(header)
		if last := limits[len(limits)-1]; last.Name != "tokens" || last.Reset != want {
			t.Errorf("%v: %+v, want %v", header, last, want)
		}
		header.Set("X-RateLimit-Remaining", "3")
	}
}

// Whatever the header, the numbers stay in bounds, and there are not many.
func FuzzAppend(f *testing.F) {
	f.Add("X-RateLimit-Remaining", "5", "X-RateLimit-Reset", "1e300")
	f.Add("RateLimit", `"a";r=1;t=5;pk=:YQ==:`, "RateLimit-Policy", `"a";q=9;w=60;qu="content-bytes"`)
	f.Add("RateLimit", "limit=10, remaining=5, reset=5", "RateLimit-Remaining", "5;w=60, 3;w=5")
	f.Add("X-Ms-Ratelimit-Remaining-Resource", "a/b;1,a/c;2\na/d;3", "X-Shopify-Shop-Api-Call-Limit", "3/40")
	f.Add("X-RateLimit-Limit", "200,2000", "X-RateLimit-Usage", "3,1e3")
	f.Add("X-RateLimit-Global-Remaining", "1", "X-RateLimit-Reset", "2000-01-01T00:00Z")
	f.Fuzz(func(t *testing.T, key1, value1, key2, value2 string) {
		header := http.Header{key1: strings.Split(value1, "\n"), key2: strings.Split(value2, "\n")} // not made canonical
		limits := read(header)
		if len(limits) > MostRead {
			t.Errorf("%d limits", len(limits))
		}
		for _, l := range limits {
			if !(l.Remaining >= 0 && l.Remaining <= math.MaxFloat64 && l.Quota >= 0 && l.Quota <= math.MaxFloat64) ||
				l.Reset < -1 || l.Reset > 100*365*24*time.Hour {
				t.Errorf("%+v", l)
			}
		}
	})
}

// Only joined texts and failed parses are allocated, once the names are known.
func TestAppendDoesNotAllocate(t *testing.T) {
	odd := regexp.MustCompile("JavaScript|date without seconds|left out if|negative")
	for _, r := range recordings(t) {
		joined := odd.MatchString(r.source) || slices.ContainsFunc(slices.Collect(maps.Values(r.header)), func(v []string) bool { return len(v) > 1 }) ||
			slices.ContainsFunc(r.limits, func(l string) bool { return strings.Contains(l, "/") })
		var limits [MostRead]Limit
		if got := testing.AllocsPerRun(100, func() { Append(limits[:0], r.header, time.Now) }); got > 0 && !joined {
			t.Errorf("%s: %v allocations", r.source, got)
		}
	}
}

// A long number is not read, because it would be parsed for each of the elements of
// another value.
func TestLongNumbers(t *testing.T) {
	header := http.Header{
		"X-Ratelimit-Remaining": {strings.Repeat("1,", mostElements)}, "X-Ratelimit-Limit": {strings.Repeat("9", 1<<20)},
		"X-Ratelimit-Reset": {"10"},
	}
	want := []Limit{{Remaining: 1, Reset: 10 * time.Second}}
	if got := read(header); !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
	if n := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			read(header)
		}
	}); n.NsPerOp() > int64(100*time.Millisecond) {
		t.Errorf("a header of a megabyte takes %v", time.Duration(n.NsPerOp()))
	}
}

// A long name is not read, because it would be copied for each of the value's limits,
// and many names are not kept.
func TestManyAndLongNames(t *testing.T) {
	long := http.Header{strings.Repeat("A", longestName) + "-Ratelimit": {strings.Repeat("a;r=1,", 100) + "a;r=1"}}
	if got := Append(make([]Limit, 0, MostRead), long, time.Now); len(got) > 0 {
		t.Errorf("a long name: %d limits, the first is %.100v", len(got), got[0])
	}
	many := http.Header{}
	for i := range 10 * mostKnown {
		many[http.CanonicalHeaderKey(fmt.Sprintf("Many%d-Limit", i))] = []string{"1"}
	}
	before := known.Load()
	Append(make([]Limit, 0, MostRead), many, time.Now)
	if known.Load() != before {
		t.Error("many names: they are kept")
	}
}
