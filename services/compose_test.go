package services

import (
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

// A choice is what a program sets in a Transport. Each of set is one assignment.
type choice struct {
	name string
	set  []func(*awsretry.Transport)
}

// policies returns the policies that a program may set.
func policies(s Service) []choice {
	policy := func(name string, policy awsretry.Policy) choice {
		return choice{name, []func(*awsretry.Transport){func(tr *awsretry.Transport) { tr.Policy = policy }}}
	}
	own := func(a *awsretry.Attempt) awsretry.Class {
		if a.Response != nil && a.Response.StatusCode == http.StatusNotFound {
			return awsretry.Transient
		}
		return awsretry.DefaultPolicy(a)
	}
	all := []choice{
		{name: "none"}, policy("nil", nil),
		policy("IdempotentOnly(nil)", awsretry.IdempotentOnly(nil)), policy("DefaultPolicy", awsretry.DefaultPolicy),
		policy("own", own), policy("IdempotentOnly(own)", awsretry.IdempotentOnly(own)),
	}
	if s.Policy != nil {
		all = append(all, policy("the service's", s.Policy), policy("IdempotentOnly(the service's)", awsretry.IdempotentOnly(s.Policy)))
	}
	return all
}

// pacings returns the modes that a program may set.
func pacings() []choice {
	mode := func(mode awsretry.Mode) func(*awsretry.Transport) {
		return func(tr *awsretry.Transport) { tr.Mode = mode }
	}
	limits := func(c awsretry.RateLimitConfig) func(*awsretry.Transport) {
		return func(tr *awsretry.Transport) { tr.RateLimit = c }
	}
	return []choice{
		{name: "none"}, {"standard", []func(*awsretry.Transport){mode(awsretry.Standard)}},
		{"adaptive", []func(*awsretry.Transport){mode(awsretry.Adaptive)}},
		{"adaptive, scaled", []func(*awsretry.Transport){
			mode(awsretry.Adaptive), limits(awsretry.RateLimitConfig{Pacing: awsretry.ScaledPacing}),
		}},
		{"own limits", []func(*awsretry.Transport){
			limits(awsretry.RateLimitConfig{Limits: func(*http.Response) []awsretry.Limit { return nil }}), mode(awsretry.Adaptive),
		}},
		{"own limits in standard mode", []func(*awsretry.Transport){
			limits(awsretry.RateLimitConfig{Limits: func(*http.Response) []awsretry.Limit { return nil }}),
		}},
	}
}

// others returns other fields that services set too.
func others() []func(*awsretry.Transport) {
	return []func(*awsretry.Transport){
		func(tr *awsretry.Transport) { tr.MaxAttempts = 4 },
		func(tr *awsretry.Transport) { tr.MaxRetryAfter = time.Second },
		func(tr *awsretry.Transport) { tr.Partition = func(*http.Request) string { return "mine" } },
		func(tr *awsretry.Transport) { tr.IdempotencyKey = awsretry.RandomKey },
		func(tr *awsretry.Transport) { tr.Peek = awsretry.WholeDocuments },
		func(tr *awsretry.Transport) {
			tr.RetryAfter = func(*http.Response, []byte) (time.Duration, bool) { return 3 * time.Second, true }
		},
	}
}

// outcomes returns what comes of one request for each recording, and for others.
func outcomes(t *testing.T, tr *awsretry.Transport, all []recording) string {
	var out strings.Builder
	var now recording
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		resp := httpfake.Response(req, now.status, io.NopCloser(strings.NewReader(now.body)))
		resp.Header = now.header.Clone()
		return resp, nil
	})
	tr.RetryAfterSpread, tr.Backoff = -1, awsretry.Exponential{Jitter: awsretry.NoJitter}
	tr.Observe = func(a awsretry.Attempt) {
		fmt.Fprintln(&out, now.method, now.title, a.Number, a.Partition, a.Class, a.Asked, a.Delay, a.Stop, a.MaybeExecuted)
		if a.Class == awsretry.Success || a.Stop != "" {
			state, _ := tr.State(a.Partition)
			fmt.Fprintln(&out, len(state.Limits), "limits")
		}
	}
	if err := tr.Validate(); err != nil {
		return err.Error()
	}
	for _, now = range all {
		ctx := awsretry.WithMaxAttempts(t.Context(), 2)
		req, err := http.NewRequestWithContext(ctx, now.method, now.url, nil)
		if err != nil {
			t.Fatal(err)
		}
		if resp, err := tr.RoundTrip(req); err != nil {
			t.Error(err)
		} else {
			resp.Body.Close()
		}
		time.Sleep(2 * time.Hour) // until no limit is in force
	}
	return out.String()
}

// plain are recordings that no service has.
func plain(t *testing.T, name string) []recording {
	url := recorded(t, name)[0].url
	var all []recording
	for _, method := range []string{"GET", "POST"} {
		for _, status := range []int{200, 404, 429, 502} {
			all = append(all, recording{title: fmt.Sprint(status), method: method, url: url, status: status,
				header: http.Header{"X-Ratelimit-Limit": {"60"}, "X-Ratelimit-Remaining": {"50"}, "X-Ratelimit-Reset": {"30"}}})
		}
	}
	return all
}

// In whatever order a program applies a service and sets fields, the Transport does
// the same.
func TestApplyInAnyOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(54, 7))
	pick := func(all []choice) choice { return all[random.IntN(len(all))] }
	for range 300 {
		s := all[random.IntN(len(all))]
		policy, pacing := pick(policies(s.service)), pick(pacings())
		set := append(policy.set, pacing.set...)
		for _, other := range others() {
			if random.IntN(6) == 0 {
				set = append(set, other)
			}
		}
		steps := append(set[:len(set):len(set)], s.service.Apply)
		order := random.Perm(len(steps))
		name := fmt.Sprintf("%s, policy %s, pacing %s, %d steps in the order %v", s.name, policy.name, pacing.name, len(steps), order)
		scripts := append(recorded(t, s.file), plain(t, s.file)...)
		synctest.Test(t, func(t *testing.T) {
			var want, got awsretry.Transport
			for _, step := range steps {
				step(&want)
			}
			for _, i := range order {
				steps[i](&got)
			}
			if want, got := outcomes(t, &want, scripts), outcomes(t, &got, scripts); want != got {
				t.Errorf("%s:\n%s\nthe service last:\n%s", name, got, want)
			}
		})
	}
}

// The service classifies with every policy that asks for the default, and the policy
// decides whether a POST may be sent again.
func TestServiceAndPolicy(t *testing.T) {
	const secondary = `{"message":"You have exceeded a secondary rate limit"}`
	for _, choice := range policies(GitHub) {
		for _, tt := range []struct {
			method string
			status int
			body   string
			sent   int
		}{
			{"GET", 403, secondary, 2}, {"POST", 403, secondary, 2}, {"GET", 403, "", 1}, {"GET", 502, "", 2}, {"POST", 502, "", 1}, {"GET", 404, "", 1},
		} {
			retries := choice.name == "DefaultPolicy" || choice.name == "own" || choice.name == "the service's"
			if tt.method == "POST" && tt.status == 502 && retries || tt.status == 404 && strings.Contains(choice.name, "own") {
				tt.sent = 2
			}
			synctest.Test(t, func(t *testing.T) {
				sent := 0
				tr := awsretry.Transport{MaxAttempts: 2, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					sent++
					return httpfake.Response(req, tt.status, io.NopCloser(strings.NewReader(tt.body))), nil
				})}
				GitHub.Apply(&tr)
				for _, set := range choice.set {
					set(&tr)
				}
				req := httpfake.Request(t, t.Context(), tt.method, nil)
				if resp, err := tr.RoundTrip(req); err != nil || resp.StatusCode != tt.status || sent != tt.sent {
					t.Errorf("policy %s: %s with %d %s is sent %d times, want %d; %v",
						choice.name, tt.method, tt.status, tt.body, sent, tt.sent, err)
				}
			})
		}
	}
}

// A service alone does not send a POST twice that may have been executed, unless it
// has a key, or only reads or generates.
func TestPostsAreSentOnce(t *testing.T) {
	for _, tt := range []struct {
		service Service
		url     string
		sent    int
	}{
		{GitHub, "https://api.github.com/repos/a/b/issues", 1},
		{GitHub, "https://api.github.com/graphql", 1},
		{OpenAI, "https://api.openai.com/v1/chat/completions", 3},
		{OpenAI, "https://api.openai.com/v1/files", 1},
		{OpenAI, "https://api.openai.com/v1/batches", 1},
		{AzureOpenAI, "https://x.openai.azure.com/openai/deployments/gpt-4o/chat/completions", 3},
		{Anthropic, "https://api.anthropic.com/v1/messages", 3},
		{Anthropic, "https://api.anthropic.com/v1/messages/batches", 1},
		{Stripe, "https://api.stripe.com/v1/charges", 3},
		{Shopify, "https://a.myshopify.com/admin/api/2025-07/orders.json", 1},
		{Slack, "https://slack.com/api/chat.postMessage", 1},
		{Slack, "https://slack.com/api/conversations.history", 3},
		{Slack, "https://hooks.slack.com/services/T0/B0/x.list", 1},
		{Okta, "https://example.okta.com/api/v1/users", 1},
		{Google, "https://www.googleapis.com/drive/v3/files", 1},
		{Google, "https://generativelanguage.googleapis.com/v1beta/models/gemini-2.0-flash:generateContent", 3},
		{Kubernetes, "https://10.example/api/v1/namespaces/default/pods", 1},
		{Service{MaxAttempts: 3}, "https://a.test/", 1},
		{Service{}, "https://a.test/", 3}, // which sets nothing
	} {
		for _, policy := range []awsretry.Policy{nil, awsretry.IdempotentOnly(nil)} {
			synctest.Test(t, func(t *testing.T) {
				sent, want := 0, tt.sent
				tr := &awsretry.Transport{Policy: policy, Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					sent++
					return httpfake.Response(req, 502, http.NoBody), nil
				})}
				tt.service.Apply(tr)
				if policy != nil && tt.service.IdempotencyKey == nil {
					want = 1
				}
				if _, err := tr.RoundTrip(httpfake.Post(t, tt.url, "{}")); err != nil || sent != want {
					t.Errorf("%s, IdempotentOnly %v: sent %d times, want %d; %v", tt.url, policy != nil, sent, want, err)
				}
			})
		}
	}
}

// A failure that only the service knows may have been executed, too.
func TestHiddenFailureMayBeExecuted(t *testing.T) {
	var seen []awsretry.Attempt
	tr := &awsretry.Transport{Observe: func(a awsretry.Attempt) { seen = append(seen, a) }}
	tr.Base = httpfake.Base(func(req *http.Request) (*http.Response, error) {
		return httpfake.Response(req, 200, io.NopCloser(strings.NewReader(`{"ok":false,"error":"internal_error"}`))), nil
	})
	Slack.Apply(tr)
	resp, err := tr.RoundTrip(httpfake.Post(t, "https://slack.com/api/chat.postMessage", "{}"))
	if err != nil || resp.StatusCode != 200 {
		t.Fatal(err)
	}
	if len(seen) != 1 || seen[0].Class != awsretry.Permanent || !seen[0].MaybeExecuted {
		t.Errorf("%+v", seen)
	}
}

// A Transport has one service. The zero Service does not count.
func TestTwoServices(t *testing.T) {
	for _, tt := range []struct {
		services []Service
		want     string
	}{
		{[]Service{GitHub, {}}, ""},
		{[]Service{GitHub, Slack}, "awsretry: Transport.Policy is that of 2 services; there must be one: call Service.Apply once for each Transport"},
		{[]Service{Okta, Kubernetes, Google}, "3 services"},
	} {
		var tr awsretry.Transport
		for _, s := range tt.services {
			s.Apply(&tr)
		}
		if err := tr.Validate(); (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%d services: %v, want %q", len(tt.services), err, tt.want)
		}
	}
}

// A service's policy sees each response, also of a request that needs nothing else.
func TestPolicyOfSuccesses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := &awsretry.Transport{Base: httpfake.Statuses(202, 200, 202, 202, 200)}
		Service{Policy: func(a *awsretry.Attempt) awsretry.Class {
			if a.Response != nil && a.Response.StatusCode == http.StatusAccepted {
				return awsretry.Throttled
			}
			return awsretry.DefaultPolicy(a)
		}}.Apply(tr)
		for range 2 {
			if resp, err := tr.RoundTrip(httpfake.Request(t, t.Context(), "GET", nil)); err != nil || resp.StatusCode != 200 {
				t.Errorf("%v, %v", resp, err)
			}
		}
	})
}

// What announced limits configure is valid with those of the service, which have no
// effect in another mode.
func TestReserve(t *testing.T) {
	tr := &awsretry.Transport{Mode: awsretry.Adaptive}
	Okta.Apply(tr)
	tr.Mode = awsretry.Standard
	if err := tr.Validate(); err != nil {
		t.Error(err)
	}
	tr.Mode = awsretry.Adaptive
	tr.RateLimit = awsretry.RateLimitConfig{Reserve: 0.1}
	if err := tr.Validate(); err != nil {
		t.Error(err)
	}
	tr.Mode = awsretry.Standard
	if err := tr.Validate(); err == nil || !strings.Contains(err.Error(), "RateLimit.Reserve") {
		t.Errorf("in standard mode: %v", err)
	}
}
