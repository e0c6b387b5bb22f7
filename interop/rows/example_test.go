package rows

import (
	"context"
	"net/http"

	"example.com/awsretry"
)

func Example_watch() {
	ctx := context.Background()
	ctx = awsretry.WithAttemptTimeout(ctx, 0)
	_ = ctx
}

func Example_maybeExecuted() {
	ask := func(resp *http.Response) {
		record, _ := awsretry.Outcome(resp)
		if resp.StatusCode >= 400 && record.MaybeExecuted {
			// ask the service what is there
		}
	}
	_ = ask
}
