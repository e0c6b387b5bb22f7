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

func FuzzParse(f *testing.F) {
	seeds(f)
	f.Fuzz(func(t *testing.T, text []byte) {
		p, err := Parse(text)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v, %v", p, err)
		}
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := Parse(again)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
		if diff := cmp.Diff(p, q, retryFields); diff != "" {
			t.Fatalf("%s became %s:\n%s", text, again, diff)
		}
		n, total := 0, time.Duration(0)
		for d := range p.Delays() {
			if n++; d < 0 || d > maxDelayTarget*time.Second {
				t.Fatalf("%s: a pause of %v", text, d)
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
		p, err := ParseTopic(text)
		if (p == nil) == (err == nil) {
			t.Fatalf("got %v, %v", p, err)
		}
		if err != nil {
			return
		}
		again, err := json.Marshal(p)
		if err != nil {
			t.Fatal(err)
		}
		q, err := ParseTopic(again)
		if err != nil {
			t.Fatalf("%s became %s: %v", text, again, err)
		}
		if diff := cmp.Diff(p, q, retryFields); diff != "" {
			t.Fatalf("%s became %s:\n%s", text, again, diff)
		}
		if err := Effective(p, nil).Validate(true); err != nil {
			t.Fatalf("%s: its effective policy: %v", text, err)
		}
	})
}

// What Amazon SNS returns for the attribute EffectiveDeliveryPolicy is read, a
// file with a byte order mark too.
func TestPoliciesAsAmazonReturnsThem(t *testing.T) {
	const retry = `{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":7,"numMaxDelayRetries":0,"numNoDelayRetries":0,"numMinDelayRetries":0,"backoffFunction":"linear"}`
	full := &RetryPolicy{MinDelayTarget: ptr(20), MaxDelayTarget: ptr(20), NumRetries: ptr(7), NumMaxDelayRetries: ptr(0),
		NumNoDelayRetries: ptr(0), NumMinDelayRetries: ptr(0), BackoffFunction: Linear}
	content := &RequestPolicy{HeaderContentType: "text/plain; charset=UTF-8"}
	for text, want := range map[string]*Policy{
		`{"healthyRetryPolicy":` + retry + `,"sicklyRetryPolicy":null,"throttlePolicy":null,"requestPolicy":{"headerContentType":"text/plain; charset=UTF-8"},"guaranteed":false}`: {HealthyRetryPolicy: full, RequestPolicy: content},
		byteOrderMark + `{"healthyRetryPolicy":null,"throttlePolicy":{"maxReceivesPerSecond":null},"requestPolicy":null}`:                                                          {ThrottlePolicy: &ThrottlePolicy{}},
	} {
		p := parse(t, text)
		if diff := cmp.Diff(want, p, retryFields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
		if err := p.Validate(false); err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if resp, err := (&Transport{Policy: p, Base: answering(200)}).RoundTrip(post(t, "http://a.example/", "x")); err != nil || resp.StatusCode != 200 {
			t.Errorf("%s: got %v, %v", text, resp, err)
		}
	}
	for text, want := range map[string]*TopicPolicy{
		byteOrderMark + `{"http":{"defaultHealthyRetryPolicy":` + retry + `,"defaultSicklyRetryPolicy":null,"disableSubscriptionOverrides":false,"defaultThrottlePolicy":null,"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}`: {&TopicHTTPPolicy{
			DefaultHealthyRetryPolicy: full, DisableSubscriptionOverrides: ptr(false), DefaultRequestPolicy: content}},
		`{"http":null}`: {},
	} {
		p, err := ParseTopic([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, p, retryFields); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}

	kept := Policy{ThrottlePolicy: &ThrottlePolicy{MaxReceivesPerSecond: ptr(5)}}
	both := struct {
		Subscription Policy
		Topic        TopicPolicy
	}{Subscription: kept}
	if err := json.Unmarshal([]byte(`{"Subscription":null,"Topic":null}`), &both); err != nil || both.Subscription != kept {
		t.Errorf("got %+v, %v", both, err)
	}
}
