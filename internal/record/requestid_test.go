package record

import (
	"net/http"
	"strings"
	"testing"
)

func TestRequestID(t *testing.T) {
	for _, tt := range []struct {
		headers string // name=value, with a space between two
		want    string
	}{
		{"", ""},
		{"X-Request-Id=1", "1"},
		{"X-Amzn-Requestid=1 X-Amz-Request-Id=2 X-Request-Id=3", "1"},
		{"X-Amz-Request-Id=2 X-Request-Id=3", "2"},
		{"X-Request-Id=3 X-Github-Request-Id=1", "1"},
		{"X-Okta-Request-Id=1", "1"},
		{"Request-Id=1 Cf-Ray=2", "1"},
		{"X-Ms-Client-Request-Id=1 X-Ms-Request-Id=2 X-Ms-Correlation-Request-Id=3", "2"},
		{"Apim-Request-Id=1 X-Ms-Request-Id=2", "2"},
		{"X-Goog-Requestid=1", "1"},
		{"Requestid=1", "1"},
		{"X-Request-Id= Cf-Ray=2 X-Trace-Id=3", "2"},
		{"X-Amz-Request-Id= X-Request-Id=3", "3"},
		{"X-Trace-Id=1 X-Slack-Req-Id=2 Audit-Id=3", "1"},
		{"X-Slack-Req-Id=2 Audit-Id=3", "2"},
		{"Audit-Id=3", "3"},
		{"X-Request-Id-2=1 X-Request-Ids=2 Date=3", ""},
		{"X-Request-Id=" + strings.Repeat("a", 300), strings.Repeat("a", 200)},
		{"X-Request-Id=a\x1b\u009bb", "a\ufffd\ufffdb"},
		{"Cf-Ray=a\x00", "a\ufffd"},
	} {
		h := http.Header{}
		for field := range strings.SplitSeq(tt.headers, " ") {
			if name, value, ok := strings.Cut(field, "="); ok {
				h.Set(name, value)
			}
		}
		for range 20 { // a map has no order
			if got := RequestID(h); got != tt.want {
				t.Errorf("%q: %q, want %q", tt.headers, got, tt.want)
				break
			}
		}
	}
	lower := http.Header{"x-custom-request-id": {"1"}}
	if got := RequestID(lower); got != "1" {
		t.Errorf("a name in lower case: %q", got)
	}
	if RequestID(nil) != "" {
		t.Error("no header has an ID")
	}
}

// It costs no allocation.
func TestRequestIDAllocations(t *testing.T) {
	h := http.Header{"X-Github-Request-Id": {"1"}, "Content-Type": {"text/plain"}, "Cf-Ray": {"2"}}
	if n := testing.AllocsPerRun(100, func() { RequestID(h) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
}
