package webhook

import "testing"

func TestRetryStatus(t *testing.T) {
	t.Parallel()
	for status, want := range map[int]bool{
		301: false, 400: false, 404: false, 408: true, 409: false, 410: false, 425: true, 429: true, 500: true, 503: true, 599: true,
		600: false,
	} {
		if got := RetryStatus(status); got != want {
			t.Errorf("%d: %v", status, got)
		}
	}
}
