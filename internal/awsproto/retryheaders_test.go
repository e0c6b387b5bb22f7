package awsproto

import (
	"maps"
	"math"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func TestRetryAfter(t *testing.T) {
	const longest = time.Duration(math.MaxInt64)
	tests := []struct {
		name   string
		values []string
		want   time.Duration
		absent bool
	}{
		{name: "absent", absent: true},
		{name: "empty", values: []string{""}},
		{name: "zero", values: []string{"0"}},
		{name: "seconds", values: []string{"7"}, want: 7 * time.Second},
		{name: "white space", values: []string{" 7 "}, want: 7 * time.Second},
		{name: "leading zeros", values: []string{"007"}, want: 7 * time.Second},
		{name: "minus", values: []string{"-7"}},
		{name: "plus", values: []string{"+7"}},
		{name: "fraction", values: []string{"1.5"}, want: 2 * time.Second},
		{name: "fraction of zero", values: []string{"1.0"}, want: time.Second},
		{name: "small fraction", values: []string{"0.0000001"}, want: time.Second},
		{name: "fraction alone", values: []string{".5"}},
		{name: "no fraction after the point", values: []string{"5."}},
		{name: "exponent", values: []string{"1e3"}},
		{name: "words", values: []string{"soon"}},
		{name: "largest Duration in seconds", values: []string{"9223372035"}, want: 9223372035 * time.Second},
		{name: "one more", values: []string{"9223372036"}, want: longest},
		{name: "more than an int64", values: []string{"99999999999999999999"}, want: longest},
		{name: "date", values: []string{"Sun, 01 Mar 2026 12:00:30 GMT"}, want: 30 * time.Second},
		{name: "past date", values: []string{"Sun, 01 Mar 2026 11:59:59 GMT"}},
		{name: "distant date", values: []string{"Fri, 31 Dec 9999 23:59:59 GMT"}, want: longest},
		{name: "longest of several", values: []string{"2", "Sun, 01 Mar 2026 12:00:30 GMT", "soon"},
			want: 30 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, ok := RetryAfter(http.Header{"Retry-After": tt.values}, noon)
			if got != tt.want || ok == tt.absent {
				t.Errorf("%q: %v, %v; want %v, %v", tt.values, got, ok, tt.want, !tt.absent)
			}
		})
	}
}

func TestAmzRetryAfter(t *testing.T) {
	const backoff = time.Second
	for value, want := range map[string]time.Duration{
		"":                     backoff,
		"0":                    backoff,
		"999":                  backoff,
		"1500":                 1500 * time.Millisecond,
		" 1500 ":               1500 * time.Millisecond,
		"10000":                backoff + 5*time.Second,
		"99999999999999999999": backoff + 5*time.Second,
		"invalid":              backoff,
		"-1":                   backoff,
		"1.5":                  backoff,
	} {
		if got := AmzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, backoff); got != want {
			t.Errorf("X-Amz-Retry-After %q: %v, want %v", value, got, want)
		}
	}
	const longest = time.Duration(math.MaxInt64)
	if got := AmzRetryAfter(http.Header{"X-Amz-Retry-After": {"99999999999999999999"}}, longest-1); got != longest {
		t.Errorf("after the longest delay but one: %v", got)
	}
}

// FuzzRetryAfter checks that no header shortens a delay or makes it overflow.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "1", "120", "-1", "+5", "1.5", "0.000", "0.0001", ".5", "5.", "1e9", "9223372036", "9223372037",
		"18446744073709551617",
		"99999999999999999999999999", " 7 ", "7, 8", "0x10", "1_000", "٣", "NaN", "Inf",
		"Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT", "Sun Mar  1 12:00:30 2026",
		"Sun, 01 Mar 2020 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
	} {
		f.Add(seed, "10", int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, first, second string, delay int64) {
		of := func(values ...string) time.Duration {
			d, ok := RetryAfter(http.Header{"Retry-After": values}, noon)
			if !ok {
				t.Errorf("Retry-After %q is not found", values)
			}
			return d
		}
		one, other, both := of(first), of(second), of(first, second)
		if one < 0 || other < 0 || both != max(one, other) {
			t.Errorf("Retry-After %q: %v, %q: %v, both: %v", first, one, second, other, both)
		}
		d := time.Duration(max(delay, 0))
		for _, value := range []string{first, second} {
			got := AmzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, d)
			if got < d || got-d > AmzRetryAfterSpan {
				t.Errorf("X-Amz-Retry-After %q makes %v of %v", value, got, d)
			}
		}
	})
}

func TestSetRetryHeaders(t *testing.T) {
	for name, tt := range map[string]struct{ before, want http.Header }{
		"new": {
			before: http.Header{"Other": {"x"}},
			want: http.Header{"Other": {"x"}, "Amz-Sdk-Invocation-Id": {"id"},
				"Amz-Sdk-Request": {"attempt=2; max=3"}},
		},
		"the ID is kept": {
			before: http.Header{"Amz-Sdk-Invocation-Id": {"own"}, "Amz-Sdk-Request": {"attempt=1; max=1"}},
			want:   http.Header{"Amz-Sdk-Invocation-Id": {"own"}, "Amz-Sdk-Request": {"attempt=2; max=3"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := maps.Clone(tt.before)
			SetRetryHeaders(got, "id", 2, 3)
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestSignsRetryHeaders(t *testing.T) {
	const signature = "AWS4-HMAC-SHA256 Credential=AKID/20260101/us-east-1/sqs/aws4_request, " +
		"Signature=0, SignedHeaders="
	for name, tt := range map[string]struct {
		authorization, query string
		want                 bool
	}{
		"no signature":     {},
		"bearer":           {authorization: "Bearer x"},
		"other headers":    {authorization: signature + "host;x-amz-date"},
		"retry headers":    {authorization: signature + "amz-sdk-invocation-id;amz-sdk-request;host", want: true},
		"upper case":       {authorization: signature + "Amz-Sdk-Request;Host", want: true},
		"presigned":        {query: "X-Amz-SignedHeaders=amz-sdk-request%3Bhost", want: true},
		"presigned others": {query: "X-Amz-SignedHeaders=host&x=amz-sdk-request"},
	} {
		t.Run(name, func(t *testing.T) {
			req := newRequest(t, "GET", "https://h/?"+tt.query, "Authorization", tt.authorization)
			if got := SignsRetryHeaders(req); got != tt.want {
				t.Errorf("got %v, want %v", got, tt.want)
			}
		})
	}
	if SignsRetryHeaders(&http.Request{}) {
		t.Error("true of an empty request")
	}
}

func TestNewInvocationID(t *testing.T) {
	uuid := regexp.MustCompile(`^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`)
	seen := make(map[string]bool)
	for range 100 {
		id := NewInvocationID()
		if !uuid.MatchString(id) || seen[id] {
			t.Fatalf("%q is not a UUID of version 4, or repeated", id)
		}
		seen[id] = true
	}
}

func TestOuterLoop(t *testing.T) {
	for _, tt := range []struct {
		values []string
		want   bool
	}{
		{nil, false},
		{[]string{""}, false},
		{[]string{"attempt=1; max=1"}, false},
		{[]string{"attempt=1; max=3"}, true},
		{[]string{"ttl=20260101T000000Z; attempt=3; max=3"}, true},
		{[]string{"attempt=1;max = 3"}, false},
		{[]string{"max= 3 ;attempt=1"}, true},
		{[]string{"attempt=1; max=many"}, false},
		{[]string{"attempt=1; max=-3"}, false},
		{[]string{"attempt=3"}, false},
		{[]string{"attempt=1; max=1", "attempt=1; max=2"}, true},
	} {
		if got := OuterLoop(&http.Request{Header: http.Header{"Amz-Sdk-Request": tt.values}}); got != tt.want {
			t.Errorf("%q: %v, want %v", tt.values, got, tt.want)
		}
	}
}
