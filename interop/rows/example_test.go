package rows

import (
	"context"
	"net/http"
	"time"

	"example.com/awsretry"
)

// storagePolicy leaves the chunks of an upload to the client, which repeats them by
// itself, and repeats a write only under a condition on the object's generation.
var storagePolicy = func(a *awsretry.Attempt) awsretry.Class {
	class, query := awsretry.DefaultPolicy(a), a.Request.URL.Query()
	switch {
	case !class.Retryable():
	case query.Has("upload_id"):
		return awsretry.Permanent
	case class == awsretry.Throttled, a.Request.Method == http.MethodGet, query.Has("ifGenerationMatch"):
	default:
		return awsretry.Permanent
	}
	return class
}

// untilReset returns the time until a limit of which nothing is left is reset.
var untilReset = func(resp *http.Response, _ []byte) (time.Duration, bool) {
	for _, limit := range awsretry.ReadLimits(resp) {
		if limit.Remaining < 1 && limit.Reset > 0 {
			return limit.Reset, true
		}
	}
	return 0, false // Retry-After
}

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
