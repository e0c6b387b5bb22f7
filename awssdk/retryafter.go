package awssdk

import (
	"net/http"
	"strconv"
	"time"

	"example.com/awsretry/internal/awsproto"
)

// beforeLoop returns what RetryDelay has to return so that the SDK's retry loop
// sleeps for delay. The loop raises a delay to what X-Amz-Retry-After asks for, by
// 5 s at most. It parses the header in the same way: a plus sign is allowed, and a
// number that is too large overflows.
func beforeLoop(delay time.Duration, resp *http.Response) time.Duration {
	if resp == nil {
		return delay
	}
	ms, err := strconv.ParseInt(resp.Header.Get("X-Amz-Retry-After"), 10, 64)
	if err != nil || ms < 0 || time.Duration(ms)*time.Millisecond <= delay {
		return delay
	}
	return delay - awsproto.AmzRetryAfterSpan
}
