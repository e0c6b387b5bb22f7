package rows

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/elastic/elastic-transport-go/v8/elastictransport"

	"example.com/awsretry"
)

const elasticModule = "github.com/elastic/elastic-transport-go/v8"

var nodesRow = row{
	client: elasticModule, name: "several nodes",
	how:       "its retries stay on; `Policy: leaving(nextNode, awsretry.DefaultPolicy)`",
	repeats:   "4, each to the next node",
	transport: func(tr *awsretry.Transport) { tr.Policy = leaving(nextNode, awsretry.DefaultPolicy) },
	calls:     elasticCalls(3),
	scenes: []scene{
		{name: "two dead nodes", times: forever, fault: reset, ends: time.Minute},
		{name: "two nodes that hang up", times: forever, fault: closed, ends: time.Minute},
	},
}

var nodeRow = row{
	client: elasticModule, name: "one node",
	how:   "`elastictransport.WithDisableRetry()`, `elasticsearch.Config{DisableRetry: true}`",
	keep:  4,
	calls: append(elasticCalls(1), indexReader(1, "index of a long reader", make([]byte, 3<<19))),
	losses: []loss{
		{"a body that is only a reader, above `MaxBodyBuffer`, is sent once", `of a long reader: .*: fails`},
	},
}

func elasticCalls(nodes int) []call {
	return []call{
		{name: "search", server: elasticServer, key: nodeKey, do: func(ctx context.Context, s setting) error {
			return perform(ctx, s, nodes, http.MethodGet, nil)
		}},
		{name: "index", server: elasticServer, key: nodeKey, do: func(ctx context.Context, s setting) error {
			return perform(ctx, s, nodes, http.MethodPost, strings.NewReader(`{"a":1}`))
		}},
		indexReader(nodes, "index of a reader", []byte(`{"a":1}`)),
	}
}

func indexReader(nodes int, name string, body []byte) call {
	return call{name: name, server: elasticServer, key: nodeKey, do: func(ctx context.Context, s setting) error {
		return perform(ctx, s, nodes, http.MethodPost, struct{ io.Reader }{bytes.NewReader(body)})
	}}
}

func perform(ctx context.Context, s setting, nodes int, method string, body io.Reader) error {
	options := []elastictransport.Option{elastictransport.WithTransport(s.Transport)}
	if s.over && nodes == 1 {
		options = append(options, elastictransport.WithDisableRetry())
	}
	var urls []*url.URL
	for i := range nodes {
		urls = append(urls, &url.URL{Scheme: "http", Host: fmt.Sprint("node", i+1)})
	}
	client, err := elastictransport.NewClient(append(options, elastictransport.WithURLs(urls...))...)
	if err != nil {
		return err
	}
	defer client.Close(context.WithoutCancel(ctx))
	req, err := http.NewRequestWithContext(ctx, method, "/i/_doc", body)
	if err != nil {
		return err
	}
	resp, err := client.Perform(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	got, err := io.ReadAll(resp.Body)
	return unless(bytes.Contains(got, []byte("created")), err)
}

func elasticServer() http.HandlerFunc { return respond(200, asJSON, `{"_id":"1","result":"created"}`) }

// nodeKey makes two of three nodes one, so that a scene befalls both.
func nodeKey(r *http.Request) string {
	if r.Host == "node3" {
		return r.Method + " node 3"
	}
	return r.Method + " nodes 1 and 2"
}
