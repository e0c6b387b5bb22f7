package delivery

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func seeds(f *testing.F) {
	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(text)
	}
	f.Add([]byte(`{"healthyRetryPolicy":{"numRetries":1,"numRetries":1}}`))
	f.Add([]byte(`{"http":{"disableSubscriptionOverrides":true}}`))
}

// reads parses text, and what the policy is marshaled to, which must be the same.
// It returns nil for text that is refused.
func reads[P any](t *testing.T, parse func([]byte) (*P, error), text []byte) *P {
	p, err := parse(text)
	if (p == nil) == (err == nil) {
		t.Fatalf("got %v, %v", p, err)
	}
	if err != nil {
		return nil
	}
	again, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	q, err := parse(again)
	if err != nil {
		t.Fatalf("%s became %s: %v", text, again, err)
	}
	if diff := cmp.Diff(p, q, retryFields); diff != "" {
		t.Fatalf("%s became %s:\n%s", text, again, diff)
	}
	return p
}

func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		p := reads(t, Parse, text)
		if p == nil {
			return
		}
		n, total := 0, time.Duration(0)
		for d := range p.Delays() {
			if n++; d < 0 || d > maxDelayTarget*time.Second {
				t.Fatalf("%s: a delay of %v", text, d)
			}
			total += d
		}
		if n > maxNumRetries || total > maxTotal+time.Microsecond {
			t.Fatalf("%s: %d retries in %v", text, n, total)
		}
	})
}

func FuzzParseTopic(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		if p := reads(t, ParseTopic, text); p != nil {
			if err := Effective(p, nil).ValidateRaw(); err != nil {
				t.Fatalf("%s: its effective policy: %v", text, err)
			}
		}
	})
}

// Parse and ParseTopic read what Amazon SNS returns for the attribute
// EffectiveDeliveryPolicy, and a file with a byte order mark.
func TestPoliciesAsAmazonReturnsThem(t *testing.T) {
	const (
		retry = `{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":7,"numMaxDelayRetries":0,` +
			`"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"}`
		content = `{"headerContentType":"text/plain; charset=UTF-8"}`
	)
	wantRetry := &RetryPolicy{
		MinDelayTarget: ptr(20), MaxDelayTarget: ptr(20), NumRetries: ptr(7),
		NumMaxDelayRetries: ptr(0), NumNoDelayRetries: ptr(0), NumMinDelayRetries: ptr(0),
		BackoffFunction: Linear,
	}
	wantContent := &RequestPolicy{HeaderContentType: "text/plain; charset=UTF-8"}
	for _, tt := range []struct {
		name, text string
		want       *Policy
	}{
		{"a subscription's", `{"healthyRetryPolicy":` + retry + `,"sicklyRetryPolicy":null,"throttlePolicy":null,` +
			`"requestPolicy":` + content + `,"guaranteed":false}`,
			&Policy{HealthyRetryPolicy: wantRetry, RequestPolicy: wantContent}},
		{"nothing but null",
			byteOrderMark + `{"healthyRetryPolicy":null,"throttlePolicy":{"maxReceivesPerSecond":null},` +
				`"requestPolicy":null}`,
			&Policy{ThrottlePolicy: &ThrottlePolicy{}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := parse(t, tt.text)
			if diff := cmp.Diff(tt.want, p, retryFields); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if err := p.ValidateWrapped(); err != nil {
				t.Error(err)
			}
			tr := &Transport{Policy: p, Base: responding(200)}
			if status, err := send(t, tr, post(t, "http://a.example/", "x")); status != 200 || err != nil {
				t.Errorf("got %d, %v", status, err)
			}
		})
	}
	for _, tt := range []struct {
		name, text string
		want       *TopicPolicy
	}{
		{"a topic's",
			byteOrderMark + `{"http":{"defaultHealthyRetryPolicy":` + retry + `,"defaultSicklyRetryPolicy":null,` +
				`"disableSubscriptionOverrides":false,"defaultThrottlePolicy":null,"defaultRequestPolicy":` + content +
				`}}`,
			&TopicPolicy{HTTP: &TopicHTTPPolicy{
				DefaultHealthyRetryPolicy:    wantRetry,
				DisableSubscriptionOverrides: ptr(false),
				DefaultRequestPolicy:         wantContent,
			}}},
		{"a topic's without a policy", `{"http":null}`, &TopicPolicy{}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p, err := ParseTopic([]byte(tt.text))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, p, retryFields); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
