package services

import (
	"net/http"
	"strings"
	"testing"

	"example.com/awsretry/internal/httpfake"
)

// What Peek costs until the first content of a stream, whose preamble repeats a
// request of 100 KB twice, as it comes in pieces of 4 KB.
func BenchmarkPeek(b *testing.B) {
	long := `"` + strings.Repeat("x", 100<<10) + `"`
	stream := []byte("event: response.created\ndata: {\"type\":\"response.created\",\"response\":{\"instructions\":" + long + "}}\n\n" +
		"event: response.in_progress\ndata: {\"type\":\"response.in_progress\",\"response\":{\"instructions\":" + long + "}}\n\n" +
		"event: response.output_text.delta\ndata: {\"type\":\"response.output_text.delta\",\"delta\":\"Hi\"}\n\n")
	resp := httpfake.Response(httpfake.Post(b, "http://a.test/v1/responses", ""), 200, http.NoBody, "Content-Type", "text/event-stream")
	b.ReportAllocs()
	for b.Loop() {
		for n := 4096; OpenAI.Peek(resp, stream[:min(n, len(stream))]); n += 4096 {
		}
	}
}
