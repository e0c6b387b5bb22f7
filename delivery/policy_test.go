package delivery

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var retryFields = cmp.AllowUnexported(RetryPolicy{})

func TestPolicyMarshalsToTheJSONItWasReadFrom(t *testing.T) {
	same := func(name string, text []byte, read func([]byte) (any, error)) {
		t.Helper()
		p, err := read(text)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		got, err := json.Marshal(p)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			return
		}
		var want bytes.Buffer
		json.Compact(&want, text)
		if string(got) != want.String() {
			t.Errorf("%s:\n got %s\nwant %s", name, got, want.String())
		}
	}
	subscription := func(b []byte) (any, error) { return Parse(b) }
	topic := func(b []byte) (any, error) { return ParseTopic(b) }

	files, _ := filepath.Glob("testdata/*.json")
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(filepath.Base(file), "topic") {
			same(file, text, topic)
		} else {
			same(file, text, subscription)
		}
	}
	for _, text := range []string{
		`{}`,
		`{"healthyRetryPolicy":{},"throttlePolicy":{},"requestPolicy":{}}`,
		`{"healthyRetryPolicy":{"numRetries":0}}`,
		`{"healthyRetryPolicy":{"numNoDelayRetries":0}}`,
	} {
		same(text, []byte(text), subscription)
	}
	for _, text := range []string{
		`{}`,
		`{"http":{}}`,
		`{"http":{"disableSubscriptionOverrides":false}}`,
		`{"http":{"disableSubscriptionOverrides":true,"defaultThrottlePolicy":{}}}`,
	} {
		same(text, []byte(text), topic)
	}
}

func TestPolicyInsideAnotherDocumentIsReadAsStrictly(t *testing.T) {
	var doc struct {
		Subscription Policy
		Topic        TopicPolicy
	}
	good := `{"Subscription": {"throttlePolicy": {"maxReceivesPerSecond": 5}}, "Topic": {"http": {}}}`
	if err := json.Unmarshal([]byte(good), &doc); err != nil {
		t.Fatal(err)
	}
	if *doc.Subscription.ThrottlePolicy.MaxReceivesPerSecond != 5 || doc.Topic.HTTP == nil {
		t.Errorf("got %+v", doc)
	}
	for bad, want := range map[string]string{
		`{"Subscription": {"healthyRetryPolicy": {"numRetries": 101}}}`: "numRetries is 101",
		`{"Topic": {"https": {}}}`:                                      "https",
	} {
		if err := json.Unmarshal([]byte(bad), &doc); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, want an error with %q", bad, err, want)
		}
	}
	kept := doc.Subscription
	err := json.Unmarshal([]byte(`{"Subscription": null, "Topic": null}`), &doc)
	if err != nil || doc.Subscription != kept {
		t.Errorf("null: got %+v, %v", doc, err)
	}
}

func TestEffective(t *testing.T) {
	defaults := `"healthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numNoDelayRetries":0,` +
		`"numMinDelayRetries":0,"numMaxDelayRetries":0,"backoffFunction":"linear"}`
	const topicRetries = `"defaultHealthyRetryPolicy":{"numRetries":7}`
	filled := func(n string) string { return strings.Replace(defaults, `"numRetries":3`, `"numRetries":`+n, 1) }
	tests := []struct{ name, topic, subscription, want string }{
		{"nothing set", `{}`, `{}`, `{` + defaults + `}`},
		{"empty blocks", `{"http":{}}`, `{"healthyRetryPolicy":{}}`, `{` + defaults + `}`},
		{"the topic's", `{"http":{` + topicRetries + `,"defaultThrottlePolicy":{"maxReceivesPerSecond":2},` +
			`"defaultRequestPolicy":{"headerContentType":"text/plain"}}}`, `{}`,
			`{` + filled("7") + `,"throttlePolicy":{"maxReceivesPerSecond":2},` +
				`"requestPolicy":{"headerContentType":"text/plain"}}`},
		{"block by block", `{"http":{` + topicRetries + `,"defaultThrottlePolicy":{"maxReceivesPerSecond":2}}}`,
			`{"throttlePolicy":{"maxReceivesPerSecond":9},"requestPolicy":{"headerContentType":"application/json"}}`,
			`{` + filled("7") + `,"throttlePolicy":{"maxReceivesPerSecond":9},` +
				`"requestPolicy":{"headerContentType":"application/json"}}`},
		{"a block is not merged", `{"http":{` + topicRetries + `,"defaultThrottlePolicy":{"maxReceivesPerSecond":2}}}`,
			`{"healthyRetryPolicy":{"minDelayTarget":5},"throttlePolicy":{}}`,
			`{` + strings.Replace(defaults, `"minDelayTarget":20`, `"minDelayTarget":5`, 1) + `,"throttlePolicy":{}}`},
		{"overrides disabled", `{"http":{"disableSubscriptionOverrides":true,` + topicRetries + `}}`,
			`{"healthyRetryPolicy":{"numRetries":9},"throttlePolicy":{"maxReceivesPerSecond":9}}`,
			`{` + filled("7") + `}`},
		{"overrides not disabled", `{"http":{"disableSubscriptionOverrides":false,` + topicRetries + `}}`,
			`{"healthyRetryPolicy":{"numRetries":9}}`, `{` + filled("9") + `}`},
		{"overrides disabled, nothing set", `{"http":{"disableSubscriptionOverrides":true}}`,
			`{"healthyRetryPolicy":{"numRetries":9}}`, `{` + defaults + `}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			topic, err := ParseTopic([]byte(test.topic))
			if err != nil {
				t.Fatal(err)
			}
			got, _ := json.Marshal(Effective(topic, parse(t, test.subscription)))
			if string(got) != test.want {
				t.Errorf("\n got %s\nwant %s", got, test.want)
			}
		})
	}
	if got, _ := json.Marshal(Effective(nil, nil)); string(got) != `{`+defaults+`}` {
		t.Errorf("Effective(nil, nil): got %s", got)
	}
}

func TestEffectiveSharesNothing(t *testing.T) {
	const text = `{"healthyRetryPolicy":{"numRetries":9},"throttlePolicy":{"maxReceivesPerSecond":9},` +
		`"requestPolicy":{"headerContentType":"text/plain"}}`
	p := parse(t, text)
	e := Effective(nil, p)
	*e.HealthyRetryPolicy.NumRetries = 1
	*e.ThrottlePolicy.MaxReceivesPerSecond = 1
	e.RequestPolicy.HeaderContentType = "text/css"
	if got, _ := json.Marshal(p); string(got) != text {
		t.Errorf("the policy became %s", got)
	}
}

func TestFixedPolicies(t *testing.T) {
	for name, p := range map[string]*Policy{"AWSManaged": AWSManaged(), "CustomerManaged": CustomerManaged()} {
		t.Run(name, func(t *testing.T) {
			if err := p.ValidateWrapped(); err != nil {
				t.Error(err)
			}
			if err := Effective(nil, p).ValidateRaw(); err != nil {
				t.Errorf("made effective: %v", err)
			}
			if !slices.Equal(first(p, 100), first(Effective(nil, p), 100)) {
				t.Error("Effective changed the delays")
			}
			text, _ := json.Marshal(p)
			if _, err := Parse(text); err == nil {
				t.Error("Parse accepts it as an HTTP/S policy")
			}
			*p.HealthyRetryPolicy.MinDelayTarget = 0
			if err := p.ValidateWrapped(); err == nil {
				t.Error("a minDelayTarget of 0 is valid")
			}
		})
	}
	if one, other := AWSManaged(), AWSManaged(); one.HealthyRetryPolicy == other.HealthyRetryPolicy {
		t.Error("two calls of AWSManaged share a policy")
	}
}

// first returns the first n delays.
func first(p *Policy, n int) (delays []time.Duration) {
	for d := range p.Delays() {
		if len(delays) == n {
			break
		}
		delays = append(delays, d)
	}
	return delays
}
