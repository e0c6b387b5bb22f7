// Package services configures a Transport for well-known APIs: which failures are
// throttling, how long to wait, which requests share a limit, and which key makes
// a write safe to repeat.
//
//	t := &awsretry.Transport{Policy: awsretry.IdempotentOnly(nil)}
//	services.GitHub.Apply(t)
//	client := &http.Client{Transport: t}
//
// Each Service follows the documentation that it names, as of the given month. For
// other APIs, write your own [Service].
package services

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/retrier"
)

// A Service has the settings of a Transport for one API. Each field has the same
// meaning as the Transport's field of that name. The zero value sets nothing.
type Service struct {
	// Policy classifies outcomes. It does not decide whether a request may be sent
	// twice: see Apply. In it, DefaultPolicy has the rules of the AWS SDKs.
	Policy awsretry.Policy

	MaxAttempts     int
	RetryAfter      func(resp *http.Response, body []byte) (time.Duration, bool)
	MaxRetryAfter   time.Duration
	ShareRetryAfter bool
	Limits          func(*http.Response) []awsretry.Limit         // RateLimit.Limits, in Adaptive mode
	Cost            func(req *http.Request, limit string) float64 // RateLimit.Cost, in Adaptive mode
	Partition       func(*http.Request) string
	IdempotencyKey  func(*http.Request) string

	// Peek reads the beginning of a 2xx response, as Transport.Peek. Without a Peek,
	// Policy does not see the bodies of errors either. The services of this package
	// read JSON of up to 64 KiB whole, see [awsretry.WholeDocuments].
	Peek func(resp *http.Response, body []byte) (more bool)

	// lengthen returns the RetryAfter of one Transport, which may remember earlier
	// delays. Nil means RetryAfter itself.
	lengthen func(retryAfter) retryAfter

	// harmless reports whether a request changes nothing, although its method is not
	// idempotent. Nil means that no such request is known.
	harmless func(*http.Request) bool
}

type retryAfter = func(resp *http.Response, body []byte) (time.Duration, bool)

// Apply sets the fields that t leaves unset, and makes s.Policy the
// [awsretry.DefaultPolicy] of t: in awsretry.IdempotentOnly(nil), in a Policy of your
// own that calls DefaultPolicy, and with awsretry.WithPolicy.
//
// A Transport without a Policy gets awsretry.IdempotentOnly(nil), so that no POST
// without a key is executed twice. OpenAI, AzureOpenAI, Anthropic, Google and Slack
// exempt requests that only read or generate. To retry all requests, set Policy to
// awsretry.DefaultPolicy.
//
// Apply must be called before t is used, once for each Transport. It does not matter
// which fields are set before Apply, and which after it: s.Limits and s.Cost are used
// if Mode is Adaptive at the first request. A second Apply makes t invalid.
func (s Service) Apply(t *awsretry.Transport) {
	if reflect.ValueOf(s).IsZero() {
		return
	}
	t.ApplyService(retrier.Seal{}, s.Policy, s.idempotentOnly(), s.Limits, s.Cost)
	if t.Policy == nil {
		t.Policy = s.idempotentOnly()
	}
	if t.MaxAttempts == 0 {
		t.MaxAttempts = s.MaxAttempts
	}
	if t.RetryAfter == nil {
		t.RetryAfter = s.RetryAfter
		if s.RetryAfter != nil && s.lengthen != nil {
			t.RetryAfter = s.lengthen(s.RetryAfter)
		}
	}
	if t.MaxRetryAfter == 0 {
		t.MaxRetryAfter = s.MaxRetryAfter
	}
	t.ShareRetryAfter = t.ShareRetryAfter || s.ShareRetryAfter
	if t.RateLimit.Limits == nil && t.Mode == awsretry.Adaptive {
		t.RateLimit.Limits = s.Limits
	}
	if t.Partition == nil {
		t.Partition = s.Partition
	}
	if t.IdempotencyKey == nil {
		t.IdempotencyKey = s.IdempotencyKey
	}
	if t.Peek == nil {
		t.Peek = s.Peek
	}
}

// idempotentOnly returns the policy of a Transport without one.
func (s Service) idempotentOnly() awsretry.Policy {
	idempotentOnly := awsretry.IdempotentOnly(nil)
	if s.harmless == nil {
		return idempotentOnly
	}
	return func(a *awsretry.Attempt) awsretry.Class {
		if a.Request != nil && a.Request.URL != nil && s.harmless(a.Request) {
			return awsretry.DefaultPolicy(a)
		}
		return idempotentOnly(a)
	}
}

// posts returns a harmless that is true for a POST whose path has one of the given
// ends.
func posts(ends ...string) func(*http.Request) bool {
	return func(req *http.Request) bool {
		ending := func(end string) bool { return strings.HasSuffix(req.URL.Path, end) }
		return req.Method == http.MethodPost && slices.ContainsFunc(ends, ending)
	}
}

// wholeJSON returns a Peek that reads a document of JSON whole, up to 64 KiB, so that
// one that breaks off is a failed attempt. Of other responses, it reads what peek
// asks for. It is for services whose streams are not JSON: the documents may have no
// known length, as when net/http has decompressed them.
func wholeJSON(peek func(*http.Response, []byte) bool) func(*http.Response, []byte) bool {
	return func(resp *http.Response, body []byte) (more bool) {
		return isType(resp, "application/json") && len(body) < longestError || peek != nil && peek(resp, body)
	}
}

// longestError limits how much is read of a 2xx response that contains an error or
// that may break off.
const longestError = 64 << 10

// unfinished reports whether a body may begin with one of the given texts, ignoring
// white space, and is not a complete JSON value yet.
func unfinished(body []byte, begins ...string) bool {
	start := bytes.Join(bytes.Fields(body[:min(len(body), 64)]), nil)
	for _, text := range begins {
		if len(start) < len(text) && strings.HasPrefix(text, string(start)) {
			return true
		}
		if bytes.HasPrefix(start, []byte(text)) {
			return len(body) < longestError && !json.Valid(body)
		}
	}
	return false
}

// decode decodes a body into v. If the body is not valid JSON, v is unchanged.
func decode(body []byte, v any) { _ = json.Unmarshal(body, v) }

// untilReset returns the time until the last of the resets of the exhausted limits
// that a response announces.
func untilReset(resp *http.Response) (wait time.Duration, ok bool) {
	for _, l := range awsretry.ReadLimits(resp) {
		if l.Remaining < 1 && l.Reset >= 0 {
			wait, ok = max(wait, l.Reset), true
		}
	}
	return wait, ok
}

// obeying returns a policy that follows a header with which the service allows or
// forbids a retry. Without the header, a 409 is transient, because it means that
// a lock was taken, and policy classifies other outcomes.
func obeying(header string, policy awsretry.Policy) awsretry.Policy {
	return func(a *awsretry.Attempt) awsretry.Class {
		class := policy(a)
		if a.Response == nil || a.Response.StatusCode < 400 {
			return class
		}
		switch a.Response.Header.Get(header) {
		case "true":
			if !class.Retryable() {
				return awsretry.Transient
			}
		case "false":
			return awsretry.Permanent
		default:
			if a.Response.StatusCode == http.StatusConflict {
				return awsretry.Transient
			}
		}
		return class
	}
}

// anyServerError is [awsretry.DefaultPolicy] for services whose SDKs repeat a request
// after every status from 500.
func anyServerError(a *awsretry.Attempt) awsretry.Class {
	class := awsretry.DefaultPolicy(a)
	if class == awsretry.Permanent && a.Response != nil && a.Response.StatusCode >= 500 {
		return awsretry.Transient
	}
	return class
}

// path returns the URL path of the response's request.
func path(resp *http.Response) string {
	if resp.Request == nil || resp.Request.URL == nil {
		return ""
	}
	return resp.Request.URL.Path
}

// host returns the host of a request, as in the default partition.
func host(req *http.Request) string { return strings.ToLower(req.URL.Host) }

// token returns a space and a hash of the Authorization header, or "" if there is
// none. It is part of a partition's name, which reaches logs and metrics.
func token(req *http.Request) string {
	value := req.Header.Get("Authorization")
	if value == "" {
		return ""
	}
	hash := sha256.Sum256([]byte(value))
	return " " + hex.EncodeToString(hash[:4])
}
