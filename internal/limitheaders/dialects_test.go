package limitheaders

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"example.com/awsretry/internal/worlds"
)

// noise has headers that announce no limit, although their words are those of limits.
var noise = map[string]string{
	"X-Password-Reset": "1", "X-Trial-Remaining": "0", "X-Page-Limit": "20", "X-Storage-Limit": "5/5", "X-Upload-Limit-Remaining": "0",
	"X-Domain-Name": "a", "X-Offset": "0", "RateLimit-Reason": "quota", "X-RateLimit-Scope": "user", "X-RateLimit-Global": "true",
	"X-RateLimit-Concurrent-Remaining": "0", "X-RateLimit-FillRate": "5", "X-RateLimit-Retry-After": "9", "X-RateLimit-Window": "minute",
	"RateLimit-Policy": `"other";q=1;w=1`, "Content-Type": "text/plain; limit=1", "Limit": "x=1", "X-RateLimit-NearLimit": "true",
}

// forms are the ways in which services name the headers of a limit: F is the field
// and K the kind.
var forms = []string{
	"X-RateLimit-F-K", "X-RateLimit-K-F", "X-K-RateLimit-F", "X-Rate-Limit-K-F", "X-RateLimit-KF", "X-KRateLimit-F", "RateLimit-F-K",
	"K-RateLimit-F", "Vendor-RateLimit-K-F", "Vendor-RateLimit-F-K", "Anthropic-RateLimit-K-F", "Anthropic-K-F", "X-K-F",
	"X-K-Limit-24Hour-F", "X-Vendor-KLimit-F",
}

// A service's limits are read whatever it names them, and other headers are not.
func TestLawOfDialects(t *testing.T) { worlds.Each(t, 3000, lawOfDialects) }

func lawOfDialects(t *testing.T, r *rand.Rand) {
	form, header, want := worlds.Pick(r, forms...), http.Header{}, map[string]Limit{}
	marked := strings.Contains(form, "Rate")
	kinds := []string{"Requests", "Tokens", "Search", "App", "User", "Writes-V2"}
	r.Shuffle(len(kinds), func(i, j int) { kinds[i], kinds[j] = kinds[j], kinds[i] })
	for _, kind := range kinds[:1+r.IntN(4)] {
		l := Limit{Quota: float64(1 + r.IntN(1e6)), Reset: time.Duration(1+r.IntN(86400)) * time.Second}
		l.Remaining = float64(r.IntN(int(l.Quota) + 1))
		reset, value := "Reset", ""
		switch at := time.Now().Add(l.Reset); r.IntN(8) {
		case 0:
			value = fmt.Sprint(at.Unix())
		case 1:
			value = fmt.Sprint(at.UnixMilli())
		case 2:
			value = at.UTC().Format(time.RFC3339)
		case 3:
			value = at.UTC().Format(http.TimeFormat)
		case 4:
			value, l.Refills = l.Reset.String(), true
		case 5:
			reset, value = "Reset-After", fmt.Sprint(l.Reset.Seconds())
		case 6:
			reset, value = "Reset-Ms", fmt.Sprint(l.Reset.Milliseconds())
		default:
			value = fmt.Sprint(l.Reset.Seconds())
		}
		quota, left := "Limit", "Remaining"
		if marked && !strings.Contains(form, "KF") {
			quota, left = worlds.Pick(r, "Limit", "Max", "Quota"), worlds.Pick(r, "Remaining", "Left")
		}
		set := func(field, value string) {
			key := strings.Replace(strings.Replace(form, "F", field, 1), "K", kind, 1)
			header[worlds.Pick(r, key, http.CanonicalHeaderKey(key), strings.ToLower(key), strings.ToUpper(key))] = []string{value}
		}
		set(quota, fmt.Sprint(l.Quota))
		set(left, fmt.Sprint(l.Remaining))
		set(reset, value)
		l.Refills = l.Refills || strings.HasPrefix(form, "Anthropic") && reset == "Reset"
		l.Name = strings.ToLower(kind)
		if strings.Contains(form, "Vendor") {
			l.Name = "vendor-" + l.Name
		}
		if strings.Contains(form, "24Hour") {
			l.Name += "-24hour"
		}
		want[l.Name] = l
	}
	for key, value := range noise {
		if worlds.Chance(r, .5) {
			header.Set(key, value)
		}
	}
	got := map[string]Limit{}
	for _, l := range read(header) {
		got[l.Name] = l
	}
	if !mapsEqual(got, want) {
		t.Errorf("%s, %v: %+v, want %+v", form, header, got, want)
	}
}

func mapsEqual(a, b map[string]Limit) bool {
	same := len(a) == len(b)
	for name, l := range a {
		m := b[name]
		same = same && l.Quota == m.Quota && l.Remaining == m.Remaining && l.Refills == m.Refills && (l.Reset-m.Reset).Abs() < time.Millisecond
	}
	return same
}

// Whatever the names and the values, the limits are possible ones, their names differ,
// and the order of the headers makes no difference.
func TestLawOfOddHeaders(t *testing.T) { worlds.Each(t, 3000, lawOfOddHeaders) }

func lawOfOddHeaders(t *testing.T, r *rand.Rand) {
	words := strings.Split(`X Rate Limit RateLimit Limit Remaining Reset Max Left Used Usage Quota Policy Name Resource Bucket After Ms
		Seconds Milliseconds Interval Window Requests Minute 24Hour 99999999999999999999day Today Per This Anthropic Vendor ReadRateLimit
		UserRemaining Concurrent`, " ")
	values := []string{
		"", "0", "-0", "-1", "1", "7", "1e308", "1e400", "NaN", "Inf", "-Inf", "0x10", "1_000", ".", "9999999999999999", "1767225600",
		"99999999999999", "1m30s", "2562047h", "-5s", "Fri, 31 Dec 9999 23:59:59 GMT", "0001-01-01T00:00:00Z", "2000-01-01T00:01Z",
		"5, 0", "5;w=60, 3;w=5", ";;;", ",,,", "3/40", "41/40", "1e400/1", "/", "a/b;1,c/d;-2", "a;1e400", "limit=10, remaining=5, reset=5",
		"total=9; remaining=1e9; resets=-5", "b=per_hour;q=1;r=1;t=999999999999999,b=;", `"a";r=1;t=5, "a";r=0`, `"";r=1`, "x=1",
		`"b";r=999999999999999;t=999999999999.999`, "\x00", strings.Repeat("9", 400), strings.Repeat("1,", 100),
	}
	header := http.Header{}
	for range 1 + r.IntN(30) {
		var key []string
		for range 1 + r.IntN(6) {
			key = append(key, strings.TrimSpace(worlds.Pick(r, words...)))
		}
		for range r.IntN(3) {
			header.Add(strings.Join(key, "-"), worlds.Pick(r, values...))
		}
	}
	limits := read(header)
	for range 5 {
		if again := read(header); !slices.Equal(again, limits) {
			t.Errorf("%v: %+v, and %+v", header, limits, again)
		}
	}
	possible := func(n float64) bool { return n >= 0 && n <= math.MaxFloat64 }
	slices.SortFunc(limits, func(a, b Limit) int { return cmp.Compare(a.Name, b.Name) })
	for i, l := range limits {
		if !possible(l.Quota) || !possible(l.Remaining) || l.Reset < -1 || l.Reset > longest || l.Remaining < 1 && l.Reset > LongestReset {
			t.Errorf("%v: %+v", header, l)
		}
		if i > 0 && l.Name == limits[i-1].Name || len(limits) > MostRead {
			t.Errorf("%v: %+v", header, limits)
		}
	}
}
