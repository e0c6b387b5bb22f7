package attempts

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"strconv"
	"strings"

	"github.com/dustin/go-humanize"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/term"
	"example.com/awsretry/internal/neterr"
	"example.com/awsretry/internal/record"
	"example.com/awsretry/internal/redact"
)

// Status returns the outcome of an attempt in a word: the status code of the
// response, or the kind of the error.
func Status(a awsretry.Attempt) string {
	if a.Response != nil {
		return strconv.Itoa(a.Response.StatusCode)
	}
	switch {
	case a.Stop == awsretry.StopCanceled:
		return "ended"
	case a.Class == awsretry.Timeout, a.Class == awsretry.Permanent && a.Stop == awsretry.StopDeadline:
		return "timeout"
	}
	return cmp.Or(neterr.Kind(a.Err), "error")
}

// Details returns where an attempt continues a body, and the AWS error code of the
// response with the header fields that determine the delay, or the error.
func Details(a awsretry.Attempt) string {
	var parts []string
	if a.Offset > 0 {
		parts = append(parts, "from byte "+humanize.Comma(a.Offset))
	}
	if a.Response == nil {
		return strings.Join(append(parts, redact.Error(withoutAddresses(a.Err))), ", ")
	}
	if a.Code != "" {
		parts = append(parts, a.Code)
	}
	for _, name := range []string{"Retry-After-Ms", "X-Ms-Retry-After-Ms", "Retry-After", "X-Amz-Retry-After"} {
		if value := a.Response.Header.Get(name); value != "" && a.Class.Retryable() {
			parts = append(parts, name+": "+value)
		}
	}
	if to := Location(a.Response); to != "" {
		parts = append(parts, "to "+to)
	}
	return strings.Join(parts, ", ")
}

// Location returns the URL that a redirect leads to, without user and query. It
// returns "" if resp is not a redirect.
func Location(resp *http.Response) string {
	to, err := resp.Location()
	if err != nil || resp.StatusCode/100 != 3 {
		return ""
	}
	return term.URL(to)
}

// withoutAddresses returns the cause of an error on an open connection, without its
// addresses: the local port is of no interest, and the address of the server is the
// same in every row.
func withoutAddresses(err error) error {
	var outer, op *net.OpError
	if !errors.As(err, &outer) || outer.Op == "dial" || outer.Op == "proxyconnect" {
		return err
	}
	op = outer
	for errors.As(op.Err, &op) {
	}
	if op.Err == nil {
		return err
	}
	return op.Err
}

// nextStep returns what follows an attempt, in a few words.
func nextStep(a awsretry.Attempt) string {
	if a.Stop == "" {
		return "retry in " + term.Duration(a.Delay)
	}
	return cmp.Or(stops[a.Stop], "stop: "+string(a.Stop))
}

var stops = map[awsretry.Stop]string{
	awsretry.StopSuccess:     "done",
	awsretry.StopPermanent:   "stop: not retryable",
	awsretry.StopMaxAttempts: "stop: attempts used up",
	awsretry.StopQuota:       "stop: too few tokens",
	awsretry.StopDeadline:    "stop: deadline",
	awsretry.StopCanceled:    "stop: canceled",
	awsretry.StopBody:        "stop: body is gone",
	awsretry.StopRetryAfter:  "stop: delay too long",
	awsretry.StopRateLimit:   "stop: rate limited",
	awsretry.StopOuterRetry:  "stop: outer retry",
	awsretry.StopDisabled:    "stop: retries are off",
}

// RequestID returns the service's name for the request, which its operators ask
// for, or "".
func RequestID(resp *http.Response) string {
	return term.OneLine(record.RequestID(resp.Header))
}
