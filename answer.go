package awsretry

import (
	"bytes"
	"net/http"
	"net/url"
	"strings"
	"time"

	"example.com/awsretry/internal/respbody"
)

// peekWait is how long an error body is waited for. One that is not there by
// then is classified by what is.
const peekWait = time.Second

// findCode returns the AWS error code of a response, "" where there is none. It
// reads the body ahead where the code may stand there, and leaves it whole.
func (c *call) findCode(a *attempt) string {
	resp := a.Response
	hidden := mayHideError(resp, c.req)
	if resp.StatusCode < 400 && !hidden {
		return ""
	}
	code := headerCode(resp.Header)
	wanted := code == "" && mayHoldCode(resp.Header) || c.retryAfter != nil
	if !wanted || resp.Body == http.NoBody {
		return code
	}
	var enough func([]byte) bool
	if hidden {
		enough = new(hiddenError).impossible
	}
	a.Response, a.ahead = respbody.Read(resp, maxErrorBody, enough)
	if !a.ahead.Ended() {
		c.waitForBody(a, hidden)
	}
	body := a.ahead.Stop()
	if code == "" {
		code = bodyCode(resp.Header, body)
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

// mayHideError reports whether a 200 may hold an error: Amazon S3's CopyObject, UploadPartCopy and CompleteMultipartUpload.
func mayHideError(resp *http.Response, req *http.Request) bool {
	if resp.StatusCode != http.StatusOK {
		return false
	}
	switch req.Method {
	case http.MethodPut:
		return len(req.Header["X-Amz-Copy-Source"]) > 0
	case http.MethodPost:
		return req.URL != nil && hasQuery(req.URL, "uploadId")
	}
	return false
}

// A hiddenError looks at the beginning of a body that may be one of S3's error documents, as it comes.
type hiddenError struct{ skipped int } // of the body, in front of its root element

// impossible reports whether the body is none of them: what comes behind white space, the XML declaration and comments is not
// <Error. It is called with more of the same body each time.
func (h *hiddenError) impossible(body []byte) bool {
	const root = "<Error"
	for {
		rest := body[h.skipped:]
		var end string
		switch {
		case len(rest) > 0 && strings.IndexByte(" \t\r\n", rest[0]) >= 0:
			h.skipped++
			continue
		case bytes.HasPrefix(rest, []byte("\xef\xbb\xbf")):
			h.skipped += 3
			continue
		case bytes.HasPrefix(rest, []byte("<?")):
			end = "?>"
		case bytes.HasPrefix(rest, []byte("<!--")):
			end = "-->"
		default:
			n := min(len(rest), len(root))
			return string(rest[:n]) != root[:n]
		}
		i := bytes.Index(rest, []byte(end))
		if i < 0 {
			return false
		}
		h.skipped += i + len(end)
	}
}

func hasQuery(u *url.URL, name string) bool {
	return strings.Contains(u.RawQuery, name) && u.Query().Has(name)
}
