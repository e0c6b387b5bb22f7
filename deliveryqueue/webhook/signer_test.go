package webhook

import (
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/httpfake"
)

// The first secret, the message and its signature are from the tests of the
// libraries of Standard Webhooks and of Svix.
const (
	secret    = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
	other     = "whsec_C2FVsBQIhrscChlQIMV+b5sSYspob7oD"
	messageID = "msg_p5jXN8AQM9LWM0D4loKWxJek"
	payload   = `{"test": 2432232314}`
	signature = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE="
)

var signedAt = time.Unix(1614265330, 0)

func newSigner(t *testing.T, secrets ...string) *Signer {
	t.Helper()
	s, err := NewSigner(secrets...)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func newRequest(t *testing.T, body io.Reader, key string) *http.Request {
	t.Helper()
	req := httpfake.Request(t, t.Context(), "POST", body)
	if key != "" {
		req.Header.Set("Idempotency-Key", key)
	}
	return req
}

func TestSignature(t *testing.T) {
	t.Parallel()
	const empty = "v1,v48jdbgvh29KJz2Qc+ghw8G6vG3nAKnujWBg8oM/62A="
	for _, c := range []struct {
		body    string
		secrets []string
		want    []string // signatures; "": another one
	}{
		{payload, []string{secret}, []string{signature}},
		{"", []string{secret}, []string{empty}},
		{payload, []string{other, secret}, []string{"", signature}},
	} {
		req := newRequest(t, strings.NewReader(c.body), messageID)
		if err := newSigner(t, c.secrets...).sign(req, signedAt); err != nil {
			t.Fatal(err)
		}
		h := req.Header
		if h.Get("webhook-id") != messageID || h.Get("webhook-timestamp") != "1614265330" {
			t.Errorf("%v", h)
		}
		got := strings.Split(h.Get("webhook-signature"), " ")
		if c.want[0] == "" && got[0] != signature {
			c.want[0] = got[0]
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%q, want %q", got, c.want)
		}
		if body, err := httpfake.Receive(req); err != nil || body != c.body {
			t.Errorf("the body is %q, %v after the signing", body, err)
		}
	}
}

func TestInvalidSecrets(t *testing.T) {
	t.Parallel()
	encode := func(n int) string {
		return secretPrefix + base64.StdEncoding.EncodeToString([]byte(strings.Repeat("s", n)))
	}
	if _, err := NewSigner(encode(24), encode(64)); err != nil {
		t.Error(err)
	}
	for want, secrets := range map[string][]string{
		"there is no secret":                  nil,
		"secret 1 does not begin with whsec_": {encode(24)[6:]},
		"secret 1 has 23 bytes":               {encode(23), secret},
		"secret 2 has 65 bytes":               {encode(23), encode(65)},
		"secret 1 is not in base64":           {"whsec_c3Nz*3NzYWFhYWFhYWFhYWFhYWFhYWFh"},
	} {
		s, err := NewSigner(secrets...)
		text := fmt.Sprint(err)
		if s != nil || !strings.Contains(text, "webhook: NewSigner: "+want) || strings.Contains(text, "c3Nz") {
			t.Errorf("%v, want %q and no secret", err, want)
		}
	}
}

// Neither the secret nor its bytes are shown, in whatever way a Signer is
// printed, also inside another value.
func TestSecretsAreNotShown(t *testing.T) {
	t.Parallel()
	key := strings.Repeat("k", 24)
	s := newSigner(t, secretPrefix+base64.StdEncoding.EncodeToString([]byte(key)))
	inside := struct{ s Signer }{*s}
	var shown strings.Builder
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		fmt.Fprintf(&shown, strings.Repeat(verb+"\n", 3), s, *s, inside)
	}
	for _, h := range []slog.Handler{slog.NewTextHandler(&shown, nil), slog.NewJSONHandler(&shown, nil)} {
		slog.New(h).Info("signing", "signer", s, "inside", inside)
	}
	for _, bytes := range []string{"kkk", "a2tr", "6b6b", "107 107", "0x6b, 0x6b"} {
		if strings.Contains(shown.String(), bytes) {
			t.Errorf("%q is shown:\n%s", bytes, shown.String())
		}
	}
}

// Requests that cannot be signed are not sent, and not retried.
func TestUnsignable(t *testing.T) {
	t.Parallel()
	oneShot := func() io.Reader { return io.LimitReader(strings.NewReader(payload), 99) }
	for _, c := range []struct {
		name   string
		signer *Signer
		body   io.Reader
		key    string
		want   string
	}{
		{"no key", newSigner(t, secret), nil, "", "no Idempotency-Key"},
		{"full stop", newSigner(t, secret), nil, "order.7", "has a full stop"},
		{"not ASCII", newSigner(t, secret), nil, "bestellung-ä", "not ASCII"},
		{"no signer", nil, nil, "7", "no Signer"},
		{"zero signer", new(Signer), nil, "7", "no Signer"},
		{"one-shot body", newSigner(t, secret), oneShot(), "7", "no GetBody"},
	} {
		req := newRequest(t, c.body, c.key)
		err := c.signer.Prepare(req, 1)
		if err == nil || !strings.Contains(err.Error(), c.want) || req.Header.Get("webhook-signature") != "" {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if class := awsretry.DefaultPolicy(&awsretry.Attempt{Request: req, Err: err}); class != awsretry.Permanent {
			t.Errorf("%s: %v is %v", c.name, err, class)
		}
	}
}

// Names of a copied header that are not canonical name the same headers.
func TestNamesThatAreNotCanonical(t *testing.T) {
	t.Parallel()
	req := newRequest(t, strings.NewReader(payload), "")
	req.Header = http.Header{
		"idempotency-key": {"7"}, "webhook-id": {"8"}, "Webhook-ID": {"9"}, "webhook-timestamp": {"1"}, "WEBHOOK-SIGNATURE": {"v1,x"},
	}
	if err := newSigner(t, secret).Prepare(req, 1); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Webhook-Id", "Webhook-Timestamp", "Webhook-Signature"} {
		if all := values(req.Header, name); len(all) != 1 || len(req.Header[name]) != 1 {
			t.Errorf("%s: %q of %v", name, all, req.Header)
		}
	}
	if id := req.Header.Get("webhook-id"); id != "7" {
		t.Errorf("webhook-id is %q", id)
	}
	req.Header["Idempotency-Key"] = []string{"8"}
	if err := newSigner(t, secret).Prepare(req, 1); err == nil || !strings.Contains(err.Error(), "2 Idempotency-Keys") {
		t.Errorf("with two keys: %v", err)
	}
}

// Each attempt is signed with its own time and the same ID, whatever kind of
// body it has, and the request that Sign gets is not changed.
func TestEachAttemptIsSigned(t *testing.T) {
	for _, body := range []io.Reader{strings.NewReader(payload), io.LimitReader(strings.NewReader(payload), 99)} {
		synctest.Test(t, func(t *testing.T) {
			signer, attempts := newSigner(t, secret), 0
			var given *http.Request
			base := httpfake.Base(func(req *http.Request) (*http.Response, error) {
				attempts++
				if given.Header.Get("webhook-id") != "" {
					t.Errorf("the request was changed: %v", given.Header)
				}
				if sent, err := httpfake.Receive(req); err != nil || sent != payload {
					t.Errorf("%q was sent, %v", sent, err)
				}
				again := newRequest(t, strings.NewReader(payload), messageID)
				if err := signer.sign(again, time.Now()); err != nil {
					t.Fatal(err)
				}
				for _, name := range []string{"webhook-id", "webhook-timestamp", "webhook-signature"} {
					if got, want := req.Header.Get(name), again.Header.Get(name); got != want {
						t.Errorf("attempt %d: %s is %q, want %q", attempts, name, got, want)
					}
				}
				return httpfake.Empty(503, req), nil
			})
			rt := &delivery.Transport{Base: Sign(base, func(req *http.Request) (*Signer, error) {
				given = req
				return signer, nil
			})}
			resp, err := rt.RoundTrip(newRequest(t, body, messageID))
			if err != nil {
				t.Fatal(err)
			}
			resp.Body.Close()
			if attempts != 4 {
				t.Errorf("%d attempts", attempts)
			}
		})
	}
}

// The request's body is closed if the request is not sent, and an error of find is
// retried.
func TestSignerIsNotFound(t *testing.T) {
	t.Parallel()
	missing := errors.New("the database is down")
	find := func(*http.Request) (*Signer, error) { return nil, missing }
	body := httpfake.NewBody(strings.NewReader(payload))
	resp, err := Sign(httpfake.Statuses(200), find).RoundTrip(newRequest(t, body, "7"))
	if err == nil {
		resp.Body.Close()
	}
	class := awsretry.DefaultPolicy(&awsretry.Attempt{Err: err})
	if !errors.Is(err, missing) || class != awsretry.Transient || body.Closes() != 1 {
		t.Errorf("%v is %v, and the body was closed %d times", err, class, body.Closes())
	}
}

// Sign over a Transport that retries is not the Base of another.
func TestSignIsNoWayAroundCheckBase(t *testing.T) {
	t.Parallel()
	if err := (&awsretry.Transport{Base: Sign(new(delivery.Transport), nil)}).Validate(); err == nil {
		t.Error("retries of retries are accepted")
	}
	if err := (&awsretry.Transport{Base: Sign(nil, nil)}).Validate(); err != nil {
		t.Error(err)
	}
}
