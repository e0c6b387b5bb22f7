package interop

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/awsretry"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/hashicorp/vault/api"
)

// An elasticError is an answer that is no success; the transport of Elasticsearch's client leaves it to its caller.
type elasticError struct{ status int }

func (e *elasticError) Error() string { return http.StatusText(e.status) }

// elasticCases goes through the transport that go-elasticsearch is made of. Elasticsearch rejects with 429 what its queues cannot
// take, and a bulk request of index actions with IDs can be sent again.
func elasticCases() []clientCase {
	perform := func(client *http.Client, server string, req *http.Request, options ...elastictransport.Option) error {
		node, err := url.Parse(server)
		if err != nil {
			return err
		}
		options = append(options, elastictransport.WithURLs(node), elastictransport.WithTransport(client.Transport), elastictransport.WithDisableRetry())
		elastic, err := elastictransport.NewClient(options...)
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
			body := struct{ io.Reader }{strings.NewReader(lines.String())} // a stream: net/http knows no way to have it again
			req, err := http.NewRequest("POST", "/_bulk", body)
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
	rejected := answer(429, `{"error": {"type": "es_rejected_execution_exception"}, "status": 429}`)
	compressed := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip") // which net/http undoes, for it asked for it
		body := gzip.NewWriter(w)
		io.WriteString(body, `{"took": 30, "errors": false}`)
		body.Close()
	}
	return []clientCase{{
		name: "queue full", call: bulk(), sent: 3,
		answers: []http.HandlerFunc{rejected, rejected, answer(200, `{"took": 30, "errors": false}`)},
	}, {
		name: "queue full, all compressed", call: bulk(elastictransport.WithCompression()), sent: 2,
		answers: []http.HandlerFunc{rejected, compressed},
	}, {
		name: "node leaves", call: bulk(), sent: 2,
		answers: []http.HandlerFunc{hangUp, answer(200, `{"errors": false}`)},
	}, {
		name: "malformed query", call: search, sent: 1,
		answers: []http.HandlerFunc{answer(400, `{"error": {"type": "parsing_exception"}, "status": 400}`)},
		failed:  isError(func(e *elasticError) bool { return e.status == 400 }),
	}}
}

// vaultPolicy knows the 412 of a Vault node that has not caught up yet with what the client has written.
func vaultPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusPreconditionFailed {
		return awsretry.Transient
	}
	return awsretry.DefaultPolicy(a)
}

func vaultCases() []clientCase {
	read := func(client *http.Client, server string) error {
		vault, err := vaultClient(client, server)
		if err != nil {
			return err
		}
		secret, err := vault.Logical().ReadWithContext(context.Background(), "kv/database")
		if err == nil && (secret == nil || secret.Data["password"] != "hunter2") {
			err = errors.New("not the secret")
		}
		return err
	}
	write := func(client *http.Client, server string) error {
		vault, err := vaultClient(client, server)
		if err != nil {
			return err
		}
		_, err = vault.Logical().WriteWithContext(context.Background(), "kv/database", map[string]any{"password": "hunter2"})
		return err
	}
	secret := answer(200, `{"data": {"password": "hunter2"}}`)
	fault := func(text string) string { return fmt.Sprintf(`{"errors": [%q]}`, text) }
	status := func(want int) func(error) bool {
		return isError(func(e *api.ResponseError) bool { return e.StatusCode == want && len(e.Errors) == 1 })
	}
	return []clientCase{{
		name: "rate limit quota", policy: vaultPolicy, call: write, sent: 2, atLeast: time.Second,
		answers: []http.HandlerFunc{answer(429, fault("request path \"kv/database\": rate limit quota exceeded"), "Retry-After", "1"), answer(204, "")},
	}, {
		name: "node behind", policy: vaultPolicy, call: read, sent: 3,
		answers: []http.HandlerFunc{answer(412, fault("required index state not present")), answer(412, fault("required index state not present")), secret},
	}, {
		name: "not allowed", policy: vaultPolicy, call: write, sent: 1,
		answers: []http.HandlerFunc{answer(403, fault("permission denied"))},
		failed:  status(403),
	}}
}

// vaultClient is a client with its own retries off.
func vaultClient(client *http.Client, server string) (*api.Client, error) {
	vault, err := api.NewClient(&api.Config{Address: server, HttpClient: client, MaxRetries: 0})
	if err != nil {
		return nil, err
	}
	vault.SetToken("token")
	return vault, nil
}
