package retryablehttp

import (
	"fmt"
)

// unfit returns an error if Transport has a setting that Do cannot obey for req.
func (c *Client) unfit(req *Request) error {
	t := c.Transport()
	if b, ok := t.Base.(*base); !ok || b == nil {
		return fmt.Errorf("retryablehttp: Transport().Base is a %T; it must be left as it is, because Client.HTTPClient "+
			"sends the attempts", t.Base)
	}
	if t.Peek != nil {
		return fmt.Errorf("retryablehttp: Transport().Peek is set; it must be nil, because CheckRetry has the response " +
			"and can read its body")
	}
	if t.Resume && req.responseHandler != nil {
		return fmt.Errorf("retryablehttp: Transport().Resume is true; it must be false for a request with a " +
			"ResponseHandlerFunc, which reads the body before it can be continued")
	}
	if t.MaxRetryAfter >= 0 {
		return nil
	}
	var setting string
	switch {
	case t.ShareRetryAfter:
		setting = "ShareRetryAfter is true"
	case t.RetryAfter != nil:
		setting = "RetryAfter is set"
	case t.RetryAfterSpread > 0:
		setting = fmt.Sprintf("RetryAfterSpread is %v", t.RetryAfterSpread)
	default:
		return nil
	}
	return fmt.Errorf("retryablehttp: Transport().%s and MaxRetryAfter is %d; MaxRetryAfter must be 0 or above with it, "+
		"so that Transport obeys Retry-After, and not Client.Backoff", setting, t.MaxRetryAfter)
}
