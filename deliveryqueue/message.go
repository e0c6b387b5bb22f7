package deliveryqueue

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/redact"
)

// args is a job's arguments, undecoded, so that a row that cannot be read fails
// in the worker, not in River.
type args struct{ raw json.RawMessage }

func (args) Kind() string { return kind }

func (a args) MarshalJSON() ([]byte, error) { return a.raw, nil }

func (a *args) UnmarshalJSON(data []byte) error {
	a.raw = bytes.Clone(data)
	return nil
}

// A message is the decoded arguments of a job.
type message struct {
	Version int             `json:"version"`          // of the format that a reader must know
	Fixed   string          `json:"fixed,omitempty"`  // the fixed policy that has the retries; "": Policy has them
	Policy  json.RawMessage `json:"policy,omitempty"` // the rest of the policy
	Delays  []time.Duration `json:"delays,omitzero"`  // Policy.Schedule
	Sealed  bool            `json:"sealed,omitempty"`

	Deadline int64 `json:"deadline,omitempty"` // in Unix microseconds; 0: none

	Request []byte `json:"request"` // see encodeRequest
}

// messageVersion is the newest version that this release reads. It writes only what
// the release before it reads, so that a release can be rolled back.
const messageVersion = 1

// errNewer is in the error of read for a row that a newer release has written.
var errNewer = errors.New("a newer program wrote it")

// fixedPolicies maps names in the store to the policies whose JSON delivery.Parse
// rejects.
var fixedPolicies = map[string]func() *delivery.Policy{
	"aws-managed":      delivery.AWSManaged,
	"customer-managed": delivery.CustomerManaged,
}

// setPolicy sets the policy of the message. policy must be valid.
func (m *message) setPolicy(policy *delivery.Policy) error {
	if policy == nil {
		return nil
	}
	rest := *policy
	m.Delays = policy.Schedule
	retries, err := json.Marshal(policy.HealthyRetryPolicy)
	if err != nil {
		return err
	}
	for name, fixed := range fixedPolicies {
		if same, err := json.Marshal(fixed().HealthyRetryPolicy); err == nil && bytes.Equal(same, retries) {
			m.Fixed, rest.HealthyRetryPolicy = name, nil
		}
	}
	m.Policy, err = json.Marshal(&rest)
	return err
}

func (m *message) policy() (*delivery.Policy, error) {
	policy := new(delivery.Policy)
	if m.Policy != nil {
		var err error
		if policy, err = delivery.Parse(m.Policy); err != nil {
			return nil, err
		}
	}
	if m.Fixed != "" {
		fixed, ok := fixedPolicies[m.Fixed]
		if !ok {
			return nil, fmt.Errorf("there is no fixed policy %.40q", m.Fixed)
		}
		policy.HealthyRetryPolicy = fixed().HealthyRetryPolicy
	}
	policy.Schedule = m.Delays
	return policy, nil
}

// unread is a stored delivery whose request is still encoded.
type unread struct {
	policy     *delivery.Policy
	policyText string // as it is stored
	raw        []byte // see encodeRequest
	deadline   int64  // in Unix microseconds; 0: none
}

// ended reports whether no attempt may begin at t.
func (u unread) ended(t time.Time) bool { return u.deadline != 0 && t.UnixMicro() > u.deadline }

// read decodes and checks what encode wrote in addition to the head.
func (q *Queue) read(raw []byte, h head) (unread, error) {
	var m message
	if err := json.Unmarshal(raw, &m); err != nil {
		return unread{}, err
	}
	switch {
	case m.Version > messageVersion:
		return unread{}, fmt.Errorf("%w: its version is %d; this program knows versions up to %d", errNewer, m.Version, messageVersion)
	case m.Version < 1:
		return unread{}, fmt.Errorf("its version is %d", m.Version)
	}
	policy, err := m.policy()
	if err != nil {
		return unread{}, err
	}
	switch {
	case !m.Sealed:
	case q.config.Open == nil:
		return unread{}, errors.New("it is sealed, and Config.Open is nil")
	default:
		if m.Request, err = unseal(q.config.Open, m.Request); err != nil {
			return unread{}, fmt.Errorf("Config.Open: %w", err)
		}
	}
	u := unread{policy, fmt.Sprint(m.Fixed, " ", string(m.Policy), m.Delays), m.Request, m.Deadline}
	req, endpoint, err := decodeRequest(u.raw)
	if err != nil {
		return unread{}, err
	}
	// A sealed request that was moved to another row would be sent for that row.
	if req.Header.Get(keyHeader) != h.Key || endpoint != h.Endpoint {
		return unread{}, errors.New("its request is that of another delivery: the key or the endpoint differs from what List shows")
	}
	return u, nil
}

// unseal calls Config.Open. It turns a panic into an error, because River would run
// the job repeatedly.
func unseal(open func([]byte) ([]byte, error), sealed []byte) (raw []byte, err error) {
	defer func() {
		if value := recover(); value != nil {
			err = fmt.Errorf("it panicked: %v", value)
		}
	}()
	return open(sealed)
}

func (u unread) request(ctx context.Context) (*http.Request, error) {
	req, _, err := decodeRequest(u.raw)
	if err != nil {
		return nil, err
	}
	return req.WithContext(ctx), nil
}

// job returns the job of a delivery. It reads and closes the request's body.
func (q *Queue) job(req *http.Request, o Options) (job newJob, err error) {
	body, err := q.takeBody(req)
	if err == nil {
		err = errors.Join(checkURL(req), o.Policy.ValidateRaw(), checkTags(o.Tags))
	}
	if err == nil && o.Delay < 0 {
		err = fmt.Errorf("Options.Delay is %v; it must not be negative", o.Delay)
	}
	if err == nil && o.Endpoint != "" {
		o.Endpoint, err = parseEndpoint(o.Endpoint)
	}
	if err != nil {
		return job, err
	}
	own := req.Clone(context.Background())
	key, err := setKey(own, o.IdempotencyKey, o.Once)
	if base, ok := q.config.Base.(interface{ CheckKey(string) error }); ok && err == nil {
		err = base.CheckKey(key)
	}
	if err == nil {
		err = refused(own)
	}
	m := message{Version: messageVersion, Sealed: q.config.Seal != nil}
	if err == nil {
		m.Deadline, err = deadlineOf(o.Deadline)
	}
	if err == nil {
		m.Request, err = encodeRequest(own, body, o.Endpoint)
	}
	if err == nil && m.Sealed {
		if m.Request, err = q.config.Seal(m.Request); err != nil {
			err = fmt.Errorf("Config.Seal: %w", err)
		}
	}
	if err == nil {
		err = m.setPolicy(o.Policy)
	}
	if err != nil {
		return job, err
	}
	job.Args, err = json.Marshal(m)
	job.Metadata = map[string]head{headKey: {
		Method: cmp.Or(own.Method, http.MethodGet), URL: redact.URL(own.URL), Key: key, Tags: o.Tags,
		Endpoint: cmp.Or(o.Endpoint, endpointOf(own.URL)),
	}}
	job.Delay = o.Delay.Seconds()
	if o.Once {
		sum := sha256.Sum256([]byte(key + " " + req.URL.String()))
		job.Once = hex.EncodeToString(sum[:])
	}
	return job, err
}

const maxDeadline = 1e12 - 1 // in the year 33658; in microseconds it has 18 digits

// deadlineOf returns a deadline in Unix microseconds, or 0 for none. One before 1970 has
// passed.
func deadlineOf(t time.Time) (int64, error) {
	switch seconds := t.Unix(); {
	case t.IsZero():
		return 0, nil
	case seconds > maxDeadline:
		return 0, fmt.Errorf("the deadline is %v; it must be at most %v, or the zero time for none", t, time.Unix(maxDeadline, 0).UTC())
	case seconds < 0:
		return 1, nil
	}
	return max(t.UnixMicro(), 1), nil
}

// takeBody reads and closes the request's body.
func (q *Queue) takeBody(req *http.Request) ([]byte, error) {
	if req.Body == nil {
		return nil, nil
	}
	defer req.Body.Close()
	limit := q.config.MaxBody
	if req.ContentLength > limit {
		return nil, &BodyTooLargeError{Limit: limit}
	}
	body, err := io.ReadAll(io.LimitReader(req.Body, limit+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the request's body: %w", err)
	case int64(len(body)) > limit:
		return nil, &BodyTooLargeError{Limit: limit}
	case req.ContentLength > 0 && int64(len(body)) != req.ContentLength:
		return nil, fmt.Errorf("the request's ContentLength is %d and its body has %d bytes", req.ContentLength, len(body))
	case len(req.Trailer) > 0:
		return nil, errors.New("the request has a trailer, which a stored request cannot have")
	}
	return body, nil
}

// A BodyTooLargeError is in the error of Enqueue for a body that is longer than
// Config.MaxBody.
type BodyTooLargeError struct{ Limit int64 } // in bytes

func (e *BodyTooLargeError) Error() string {
	return fmt.Sprintf("the request's body is longer than Config.MaxBody, %d bytes", e.Limit)
}

// errDialed is the error of a request that net/http would send.
var errDialed = errors.New("dialed")

// asking sends nothing.
var asking = &http.Transport{DialContext: func(context.Context, string, string) (net.Conn, error) { return nil, errDialed }}

// refused returns the error with which net/http would refuse to send the request,
// for example because of a header's name.
func refused(req *http.Request) error {
	probe := req.Clone(context.Background())
	probe.Body, probe.ContentLength, probe.TransferEncoding, probe.Trailer = nil, 0, nil, nil
	_, err := asking.RoundTrip(probe) //nolint:bodyclose // it has no response
	if errors.Is(err, errDialed) {
		return nil
	}
	return err
}

func checkURL(req *http.Request) error {
	switch u := req.URL; {
	case u == nil:
		return errors.New("the request has no URL")
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("the request's URL has the scheme %.20q; it must be http or https", u.Scheme)
	case u.Hostname() == "":
		return errors.New("the request's URL has no host")
	case u.Opaque != "":
		return errors.New("the request's URL is opaque; it must have a path")
	}
	return nil
}

const keyHeader = "Idempotency-Key"

// setKey sets and returns the idempotency key: the given one, the request's own
// or, unless it is required, a random one.
func setKey(req *http.Request, key string, required bool) (string, error) {
	if req.Header == nil {
		req.Header = http.Header{}
	}
	var own []string
	for name, values := range req.Header {
		if strings.EqualFold(name, keyHeader) {
			own = append(own, values...)
			delete(req.Header, name) // its letter case may differ from keyHeader's
		}
	}
	switch {
	case key != "":
	case len(own) > 1:
		return "", fmt.Errorf("the request has %d headers %s; it must have one", len(own), keyHeader)
	case len(own) == 1 && own[0] != "":
		key = own[0]
	case required:
		return "", errors.New("Options.Once is set, and there is no idempotency key")
	default:
		key = rand.Text()
	}
	if key != redact.Text(key) || strings.TrimSpace(key) != key || strings.ContainsAny(key, "\t\n") {
		return "", fmt.Errorf("the idempotency key %.40q has a control character, a space around it, or is not UTF-8", key)
	}
	req.Header.Set(keyHeader, key)
	return key, nil
}

const (
	maxTags = 20
	maxTag  = 255 // bytes
)

func checkTags(tags []string) error {
	if len(tags) > maxTags {
		return fmt.Errorf("Options.Tags has %d; it must have at most %d", len(tags), maxTags)
	}
	for _, tag := range tags {
		if tag == "" || len(tag) > maxTag || tag != redact.Text(tag) {
			return fmt.Errorf("the tag %.40q is empty, longer than %d bytes, or not UTF-8 without control characters", tag, maxTag)
		}
	}
	return nil
}
