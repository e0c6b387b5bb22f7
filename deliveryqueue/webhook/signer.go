package webhook

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"
	"unicode"

	"example.com/awsretry/deliveryqueue/internal/ownfault"
	"example.com/awsretry/internal/retrier"
)

// A Signer signs webhooks as Standard Webhooks 1.0.0 specifies, with HMAC-SHA256.
// NewSigner returns one. A Signer is safe for concurrent use. It does not reveal a
// secret, however it is printed, logged or encoded.
type Signer struct {
	macs []func() hash.Hash // functions, so that no reflection finds the secrets
}

// The limits of Standard Webhooks, "Signature scheme", in bytes.
const (
	secretPrefix   = "whsec_"
	shortestSecret = 24
	longestSecret  = 64
)

// NewSigner returns a Signer with an endpoint's secret: whsec_ and the base64 of 24
// to 64 random bytes. While the secret is being replaced, pass the new one and the
// old one: each request then has a signature by each, and the receiver accepts
// either. Every endpoint should have its own secret, because anyone who has a
// secret can sign with it. The errors do not reveal a secret.
func NewSigner(secrets ...string) (*Signer, error) {
	if len(secrets) == 0 {
		return nil, errors.New("webhook: NewSigner: there is no secret; there must be at least one")
	}
	s := new(Signer)
	var faults []error
	for i, secret := range secrets {
		encoded, prefixed := strings.CutPrefix(secret, secretPrefix)
		key, err := base64.StdEncoding.DecodeString(encoded)
		fault := ""
		switch {
		case !prefixed:
			fault = "does not begin with " + secretPrefix
		case err != nil:
			fault = "is not in base64 after " + secretPrefix
		case len(key) < shortestSecret || len(key) > longestSecret:
			fault = fmt.Sprintf("has %d bytes", len(key))
		}
		if fault != "" {
			faults = append(faults, fmt.Errorf(
				"webhook: NewSigner: secret %d %s; it must be %s and the base64 of %d to %d bytes",
				i+1, fault, secretPrefix, shortestSecret, longestSecret))
		}
		s.macs = append(s.macs, func() hash.Hash { return hmac.New(sha256.New, key) })
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	return s, nil
}

// Prepare signs req. It sets the headers webhook-id, from the request's
// Idempotency-Key; webhook-timestamp, the time of this attempt; and
// webhook-signature. It is an awsretry.Transport's Prepare; a RoundTripper of
// [Sign] calls it too. It reads the body that req.GetBody returns.
//
// It returns an error, which is a permanent failure, if the request has no
// Idempotency-Key or several, or one with a full stop, which would make the signed text
// ambiguous, or with characters other than ASCII, which receivers decode
// differently. A body without GetBody is an error too.
func (s *Signer) Prepare(req *http.Request, _ int) error { return s.sign(req, time.Now()) }

func (s *Signer) sign(req *http.Request, now time.Time) error {
	var id string
	keys := values(req.Header, "Idempotency-Key")
	if len(keys) > 0 {
		id = keys[0]
	}
	bad := checkKey(id)
	switch {
	case s == nil || len(s.macs) == 0:
		return fault("there is no Signer, or it is not from NewSigner")
	case len(keys) > 1:
		return fault(fmt.Sprintf("the request has %d Idempotency-Keys; it must have one", len(keys)))
	case id == "":
		return fault("the request has no Idempotency-Key, which becomes its webhook-id")
	case bad != nil:
		return bad
	}
	body := io.NopCloser(io.Reader(http.NoBody))
	if req.Body != nil && req.Body != http.NoBody {
		if req.GetBody == nil {
			return fault("the request has a body and no GetBody, so its body cannot be signed before it is sent")
		}
		var err error
		if body, err = req.GetBody(); err != nil {
			return fmt.Errorf("webhook: reading the request's body: %w", err)
		}
	}
	defer body.Close()

	timestamp := strconv.FormatInt(now.Unix(), 10)
	macs := make([]hash.Hash, len(s.macs))
	all := make([]io.Writer, len(s.macs))
	for i, newMAC := range s.macs {
		macs[i] = newMAC()
		all[i] = macs[i]
	}
	content := io.MultiReader(strings.NewReader(id+"."+timestamp+"."), body)
	if _, err := io.Copy(io.MultiWriter(all...), content); err != nil {
		return fmt.Errorf("webhook: reading the request's body: %w", err)
	}
	signatures := make([]string, len(macs))
	for i, mac := range macs {
		signatures[i] = "v1," + base64.StdEncoding.EncodeToString(mac.Sum(nil))
	}
	set(req.Header, "Webhook-Id", id)
	set(req.Header, "Webhook-Timestamp", timestamp)
	set(req.Header, "Webhook-Signature", strings.Join(signatures, " "))
	return nil
}

func checkKey(key string) error {
	if strings.ContainsFunc(key, func(r rune) bool { return r == '.' || r > unicode.MaxASCII }) {
		return fault("the Idempotency-Key has a full stop, or a character that is not ASCII; a webhook-id must have neither")
	}
	return nil
}

// values returns the values of a header in any letter case, because names that were
// copied from another map may not be canonical.
func values(h http.Header, name string) (all []string) {
	for own, values := range h {
		if strings.EqualFold(own, name) {
			all = append(all, values...)
		}
	}
	return all
}

// set replaces a header in any letter case.
func set(h http.Header, name, value string) {
	for own := range h {
		if strings.EqualFold(own, name) {
			delete(h, own)
		}
	}
	h.Set(name, value)
}

// fault returns an error for a request that cannot be signed. Its type makes it
// a permanent failure.
func fault(text string) error { return &http.ProtocolError{ErrorString: "webhook: " + text} }

// Sign returns a RoundTripper that signs each request and sends it through base. It
// is for the Base of a deliveryqueue.Config and of a delivery.Transport, which send
// each attempt through it. A nil base means PublicOnly(). The request's body is
// kept in memory.
//
// find returns the Signer of the request's endpoint. It must not read the body.
// If it returns an error, the request is not sent, and a delivery is retried by
// its policy. A request that cannot be signed is a permanent failure, but a
// deliveryqueue retries it too. Neither counts against the endpoint.
func Sign(base http.RoundTripper, find func(*http.Request) (*Signer, error)) http.RoundTripper {
	if base == nil {
		base = PublicOnly()
	}
	return &signing{base: base, find: find}
}

// signing is an http.RoundTripper that signs.
type signing struct {
	base http.RoundTripper
	find func(*http.Request) (*Signer, error)
}

// Retries reports whether base retries. The packages of this repository call it,
// so that retries are not retried.
func (s *signing) Retries(retrier.Seal) bool { return retrier.Retries(s.base) }

// CheckKey returns an error for an Idempotency-Key with which requests cannot be
// signed. A deliveryqueue calls it.
func (s *signing) CheckKey(key string) error { return checkKey(key) }

// RoundTrip implements http.RoundTripper.
func (s *signing) RoundTrip(req *http.Request) (*http.Response, error) {
	signed, err := s.signed(req)
	if err != nil {
		return nil, err
	}
	return s.base.RoundTrip(signed)
}

// signed returns a signed copy of req. It reads and closes the body of req.
func (s *signing) signed(req *http.Request) (*http.Request, error) {
	if req.Body != nil {
		defer req.Body.Close()
	}
	signer, err := s.find(req)
	if err != nil {
		return nil, &ownfault.Error{Err: fmt.Errorf("webhook: finding the signer: %w", err)}
	}
	signed := req.WithContext(req.Context())
	signed.Header = req.Header.Clone()
	if req.Body != nil && req.Body != http.NoBody {
		body, err := io.ReadAll(req.Body)
		if err != nil {
			return nil, fmt.Errorf("webhook: reading the request's body: %w", err)
		}
		signed.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
		signed.Body, _ = signed.GetBody()
	}
	if err := signer.Prepare(signed, 1); err != nil {
		return nil, &ownfault.Error{Err: err}
	}
	return signed, nil
}

// CloseIdleConnections calls the method of this name of base, if it has one.
func (s *signing) CloseIdleConnections() {
	if base, ok := s.base.(interface{ CloseIdleConnections() }); ok {
		base.CloseIdleConnections()
	}
}
