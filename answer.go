package awsretry

import (
	"net/http"
	"time"

	"example.com/awsretry/internal/awsproto"
	"example.com/awsretry/internal/respbody"
)

// peekWait is how long an error body is waited for. One that is not there by
// then is classified by what is.
const peekWait = time.Second

// findCode returns the AWS error code of a response, "" where there is none. It
// reads the body ahead where the code may stand there, and leaves it whole.
func (c *call) findCode(a *attempt) string {
	resp := a.Response
	hidden := awsproto.MayHideError(resp, c.req)
	if resp.StatusCode < 400 && !hidden {
		return ""
	}
	code := awsproto.HeaderCode(resp.Header)
	wanted := code == "" && awsproto.MayHoldCode(resp.Header) || c.retryAfter != nil
	if !wanted || resp.Body == http.NoBody {
		return code
	}
	var enough func([]byte) bool
	if hidden {
		enough = new(awsproto.HiddenError).Impossible
	}
	a.Response, a.ahead = respbody.Read(resp, awsproto.MaxErrorBody, enough)
	if !a.ahead.Ended() {
		c.waitForBody(a, hidden)
	}
	body := a.ahead.Stop()
	if code == "" {
		code = awsproto.BodyCode(resp.Header, body)
	}
	return code
}

// waitForBody waits until the body of a response is read ahead. S3 ends a
// document that it begins at once after minutes, for a large copy.
func (c *call) waitForBody(a *attempt, hidden bool) {
	ctx := c.waitCtx()
	switch {
	case !hidden:
		a.ahead.Wait(ctx, min(peekWait, a.timeout.left()))
	case a.timeout == nil:
		a.ahead.Settle(ctx)
	default:
		a.ahead.Wait(ctx, a.timeout.left())
	}
}
