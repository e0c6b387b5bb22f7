package interop

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"
)

// An elasticError is a response of a status from 400 on, which the transport of
// Elasticsearch's client leaves to its caller.
type elasticError struct{ status int }

func (e *elasticError) Error() string { return http.StatusText(e.status) }

// elasticCases use the transport of go-elasticsearch. Elasticsearch rejects
// with 429 what its queues have no room for. A bulk request of index actions
// with IDs can be sent again.
func elasticCases() []clientCase {
	perform := func(client *http.Client, server string, req *http.Request, options ...elastictransport.Option) error {
		node, err := url.Parse(server)
		if err != nil {
			return err
		}
		elastic, err := elastictransport.NewClient(append(options, elastictransport.WithURLs(node),
			elastictransport.WithTransport(client.Transport), elastictransport.WithDisableRetry())...)
		if err != nil {
			return err
		}
		defer elastic.Close(context.Background())
		resp, err := elastic.Perform(req)
		if err != nil {
			return err
		}
		defer resp.Body.Close()
		var result struct{ Errors bool }
		if err := json.NewDecoder(resp.Body).Decode(&result); err != nil {
			return err
		}
		if resp.StatusCode >= 400 {
			return &elasticError{resp.StatusCode}
		}
		return nil
	}
	var lines strings.Builder
	for i := range 500 {
		fmt.Fprintf(&lines, "{\"index\": {\"_index\": \"log\", \"_id\": \"%d\"}}\n{\"line\": %d}\n", i, i)
	}
	bulk := func(options ...elastictransport.Option) func(client *http.Client, server string) error {
		return func(client *http.Client, server string) error {
			req, err := http.NewRequest("POST", "/_bulk", streamOf(lines.String()))
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/x-ndjson")
			return perform(client, server, req, options...)
		}
	}
	search := func(client *http.Client, server string) error {
		req, err := http.NewRequest("POST", "/log/_search", strings.NewReader(`{"query": {"match_all": }`))
		if err != nil {
			return err
		}
		return perform(client, server, req)
	}
	rejected := respond(429, `{"error": {"type": "es_rejected_execution_exception"}, "status": 429}`)
	const indexed = `{"took": 30, "errors": false}`
	compressed := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip") // net/http asked for it, and decompresses it
		body := gzip.NewWriter(w)
		io.WriteString(body, indexed)
		body.Close()
	}
	return []clientCase{{
		name: "full queue", call: bulk(), sent: 3,
		service: []http.HandlerFunc{rejected, rejected, respond(200, indexed)},
	}, {
		name: "full queue, all compressed", call: bulk(elastictransport.WithCompression()), sent: 2,
		service: []http.HandlerFunc{rejected, compressed},
	}, {
		name: "node that hangs up", call: bulk(), sent: 2,
		service: []http.HandlerFunc{hangUp, respond(200, indexed)},
	}, {
		name: "malformed query", call: search, sent: 1,
		service: []http.HandlerFunc{respond(400, `{"error": {"type": "parsing_exception"}, "status": 400}`)},
		failed:  isError(func(e *elasticError) bool { return e.status == 400 }),
	}}
}
