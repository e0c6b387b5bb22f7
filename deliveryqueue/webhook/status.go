package webhook

import "net/http"

// RetryStatus is for the RetryStatus of a deliveryqueue.Config and of a
// delivery.Transport. It reports true for 429 and 5xx, which Amazon SNS retries,
// and for 408 (Request Timeout) and 425 (Too Early), which ask the client to repeat
// the request (RFC 9110, section 15.5.9; RFC 8470, section 5.2).
func RetryStatus(status int) bool {
	switch status {
	case http.StatusRequestTimeout, http.StatusTooEarly, http.StatusTooManyRequests:
		return true
	}
	return status/100 == 5
}
