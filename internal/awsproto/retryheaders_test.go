package awsproto

import (
	"math"
	"net/http"
	"regexp"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const longest = time.Duration(math.MaxInt64)

func TestRetryAfter(t *testing.T) {
	for value, want := range map[string]time.Duration{
		" 7 ":                           7 * time.Second,
		"+7":                            0,
		"1.5":                           2 * time.Second,
		"0.0000001":                     time.Second,
		"5.":                            0,
		"soon":                          0,
		"9223372035":                    9223372035 * time.Second, // the largest Duration in seconds
		"9223372036":                    longest,
		"Sun, 01 Mar 2026 12:00:30 GMT": 30 * time.Second,
		"Sun, 01 Mar 2026 11:59:59 GMT": 0,
		"Fri, 31 Dec 9999 23:59:59 GMT": longest,
	} {
		if got := RetryAfter(http.Header{"Retry-After": {value}}, noon); got != want {
			t.Errorf("%q: %v, want %v", value, got, want)
		}
	}
	for _, tt := range []struct {
		header http.Header
		want   time.Duration
	}{
		{http.Header{}, 0},
		{http.Header{"Retry-After": {"2", "Sun, 01 Mar 2026 12:00:30 GMT", "soon"}}, 30 * time.Second},
		{http.Header{"Retry-After": {"2"}, "X-Ms-Retry-After-Ms": {" 1500 "}, "Retry-After-Ms": {"40", "17.25"}}, 40 * time.Millisecond},
		{http.Header{"Retry-After": {"2"}, "X-Ms-Retry-After-Ms": {"1500"}, "Retry-After-Ms": {"0"}}, 1500 * time.Millisecond},
		{http.Header{"Retry-After": {"2"}, "X-Ms-Retry-After-Ms": {"Inf"}, "Retry-After-Ms": {"-5"}}, 2 * time.Second},
		{http.Header{"Retry-After": {"2"}, "X-Ms-Retry-After-Ms": {"NaN", "1e3", "0x10", ".5", "soon", "1,5"}}, 2 * time.Second},
		{http.Header{"Retry-After-Ms": {"17.25"}}, 18 * time.Millisecond},
		{http.Header{"Retry-After-Ms": {"9223372036854"}}, longest}, // the largest Duration in milliseconds
		{http.Header{"Retry-After-Ms": {"99999999999999999999"}}, longest},
	} {
		if got := RetryAfter(tt.header, noon); got != tt.want {
			t.Errorf("%v: %v, want %v", tt.header, got, tt.want)
		}
	}
}

func TestAmzRetryAfter(t *testing.T) {
	const backoff = time.Second
	for value, want := range map[string]time.Duration{
		"0":                    backoff,
		"999":                  backoff,
		" 1500 ":               1500 * time.Millisecond,
		"+2000":                2 * time.Second,
		"++2000":               backoff,
		"+":                    backoff,
		"-2000":                backoff,
		"10000":                backoff + 5*time.Second,
		"99999999999999999999": backoff + 5*time.Second,
		"invalid":              backoff,
	} {
		if got := AmzRetryAfter(http.Header{"X-Amz-Retry-After": {value}}, backoff); got != want {
			t.Errorf("X-Amz-Retry-After %q: %v, want %v", value, got, want)
		}
	}
	if got := AmzRetryAfter(http.Header{"X-Amz-Retry-After": {"99999999999999999999"}}, longest-1); got != longest {
		t.Errorf("after the longest delay but one: %v", got)
	}
}

func TestSetRetryHeaders(t *testing.T) {
	for _, tt := range []struct{ headers, want http.Header }{
		{http.Header{"Other": {"x"}},
			http.Header{"Other": {"x"}, "Amz-Sdk-Invocation-Id": {"id"}, "Amz-Sdk-Request": {"attempt=2; max=3"}}},
		{http.Header{"Amz-Sdk-Invocation-Id": {"own"}, "Amz-Sdk-Request": {"attempt=1; max=1"}}, // the ID is kept
			http.Header{"Amz-Sdk-Invocation-Id": {"own"}, "Amz-Sdk-Request": {"attempt=2; max=3"}}},
	} {
		SetRetryHeaders(tt.headers, "id", 2, 3)
		if diff := cmp.Diff(tt.want, tt.headers); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
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
		req := newRequest(t, "GET", "https://h/?"+tt.query, "Authorization", tt.authorization)
		if got := SignsRetryHeaders(req); got != tt.want {
			t.Errorf("%s: got %v, want %v", name, got, tt.want)
		}
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
	for want, headers := range map[bool][][]string{
		true: {
			{"attempt=1; max=3"}, {"ttl=20260101T000000Z; attempt=3; max=3"}, {"max= 3 ;attempt=1"},
			{"attempt=1; max=1", "attempt=1; max=2"}, {"attempt=1;max = 3"},
			{"attempt=1"}, {"ttl=20260101T000000Z; attempt=3"}, // without a limit
		},
		false: {
			nil, {""}, {"attempt=1; max=1"}, {"attempt=1; max=many"}, {"attempt=1; max=-3"},
			{"attempt="}, {"attempt=0"}, {"ttl=20260101T000000Z"},
		},
	} {
		for _, values := range headers {
			if got := OuterLoop(&http.Request{Header: http.Header{"Amz-Sdk-Request": values}}); got != want {
				t.Errorf("%q: %v, want %v", values, got, want)
			}
		}
	}
}

// FuzzRetryAfter checks that no header shortens a delay or makes it overflow.
func FuzzRetryAfter(f *testing.F) {
	for _, seed := range []string{
		"", "0", "1", "120", "-1", "+5", "1.5", "0.000", "0.0001", ".5", "5.", "1e9", "9223372036", "9223372037",
		"18446744073709551617", "99999999999999999999999999", " 7 ", "7, 8", "0x10", "1_000", "٣", "NaN", "Inf",
		"Sun, 01 Mar 2026 12:00:30 GMT", "Sunday, 01-Mar-26 12:00:30 GMT", "Sun Mar  1 12:00:30 2026",
		"Sun, 01 Mar 2020 12:00:00 GMT", "Fri, 31 Dec 9999 23:59:59 GMT", "Mon, 01 Jan 0001 00:00:00 GMT",
	} {
		f.Add(seed, "10", int64(time.Second))
	}
	f.Fuzz(func(t *testing.T, first, second string, delay int64) {
		for _, header := range []string{"Retry-After", "Retry-After-Ms", "X-Ms-Retry-After-Ms"} {
			of := func(values ...string) time.Duration { return RetryAfter(http.Header{header: values}, noon) }
			one, other, both := of(first), of(second), of(first, second)
			if one < 0 || other < 0 || both != max(one, other) {
				t.Errorf("%s %q: %v, %q: %v, both: %v", header, first, one, second, other, both)
			}
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
