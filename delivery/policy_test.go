package delivery

import (
	"slices"
	"strings"
	"testing"
	"time"
)

func TestEffective(t *testing.T) {
	const (
		defaults = `"healthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,` +
			`"numNoDelayRetries":0,"numMinDelayRetries":0,"numMaxDelayRetries":0,"backoffFunction":"linear"}`
		topicRetries = `"defaultHealthyRetryPolicy":{"numRetries":7}`
	)
	filled := func(n string) string { return strings.Replace(defaults, `"numRetries":3`, `"numRetries":`+n, 1) }
	for _, tt := range []struct{ name, topic, subscription, want string }{
		{"nothing set", `{}`, `{}`, `{` + defaults + `}`},
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
	} {
		t.Run(tt.name, func(t *testing.T) {
			topic, err := ParseTopic([]byte(tt.topic))
			if err != nil {
				t.Fatal(err)
			}
			if got := marshal(t, Effective(topic, parse(t, tt.subscription))); got != tt.want {
				t.Errorf("\n got %s\nwant %s", got, tt.want)
			}
		})
	}
	if got := marshal(t, Effective(nil, nil)); got != `{`+defaults+`}` {
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
	if got := marshal(t, p); got != text {
		t.Errorf("the policy became %s", got)
	}
}

func TestFixedPolicies(t *testing.T) {
	for name, fixed := range map[string]func() *Policy{"AWSManaged": AWSManaged, "CustomerManaged": CustomerManaged} {
		t.Run(name, func(t *testing.T) {
			p := fixed()
			if err := Effective(nil, p).ValidateWrapped(); err != nil {
				t.Error(err)
			}
			if !slices.Equal(first(p, 100), first(Effective(nil, p), 100)) {
				t.Error("Effective changed the delays")
			}
			if _, err := Parse([]byte(marshal(t, p))); err == nil {
				t.Error("Parse accepts it as an HTTP/S policy")
			}
			*p.HealthyRetryPolicy.MinDelayTarget = 0
			if p.ValidateWrapped() == nil || fixed().ValidateWrapped() != nil {
				t.Error("a minDelayTarget of 0 is valid, or two calls share a policy")
			}
		})
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
