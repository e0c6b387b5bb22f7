package retrylog_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"

	"example.com/awsretry"
	"example.com/awsretry/retrylog"
)

// In an outage there is one warning for each partition and second, which counts
// the failures since the one before.
func ExampleConfig() {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) }))
	defer server.Close()
	logger := slog.New(slog.NewTextHandler(os.Stdout, &slog.HandlerOptions{
		ReplaceAttr: func(_ []string, a slog.Attr) slog.Attr {
			switch a.Key {
			case slog.LevelKey, slog.MessageKey, "status", "stop", "failures":
				return a
			}
			return slog.Attr{}
		},
	}))

	observe := retrylog.Config{Logger: logger, EachSecond: true, OmitPaths: true}.Observer()
	client := &http.Client{Transport: &awsretry.Transport{Observe: observe}}
	for range 3 {
		ctx := awsretry.WithoutRetry(context.Background())
		req, err := http.NewRequestWithContext(ctx, "GET", server.URL+"/bot123:SECRET/", nil)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp, err := client.Do(req)
		if err != nil {
			fmt.Println(err)
			return
		}
		resp.Body.Close()
	}
	// Output:
	// level=WARN msg="gave up" status=503 stop=disabled failures=1
}
