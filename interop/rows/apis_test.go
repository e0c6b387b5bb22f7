package rows

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/google/go-github/v89/github"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/slack-go/slack"
	"github.com/stripe/stripe-go/v85"
	gitlab "gitlab.com/gitlab-org/api/client-go"

	"example.com/awsretry"
	"example.com/awsretry/services"
)

const asJSON = "application/json"

// serving returns the server of a call whose requests all have that response.
func serving(code int, body string) func() http.HandlerFunc {
	return func() http.HandlerFunc { return respond(code, asJSON, body) }
}

// unless returns err, or an error if a client did not return what the server sent.
func unless(ok bool, err error) error {
	if err == nil && !ok {
		err = errors.New("not what the server sent")
	}
	return err
}

var githubRow = row{
	client:    "github.com/google/go-github/v89",
	how:       "has none; `github.WithDisableRateLimitCheck()`, or it refuses requests itself; [`services.GitHub`](SERVICES.md)",
	transport: services.GitHub.Apply,
	calls: []call{
		{name: "get", server: serving(200, `{"full_name":"o/r"}`), do: func(ctx context.Context, s setting) error {
			repo, _, err := newGitHub(s).Repositories.Get(ctx, "o", "r")
			return unless(repo.GetFullName() == "o/r", err)
		}},
		{name: "get, sleeping", server: serving(200, `{"full_name":"o/r"}`), do: func(ctx context.Context, s setting) error {
			ctx = context.WithValue(ctx, github.SleepUntilPrimaryRateLimitResetWhenRateLimited, true)
			repo, _, err := newGitHub(s).Repositories.Get(ctx, "o", "r")
			return unless(repo.GetFullName() == "o/r", err)
		}},
		{name: "create", server: serving(201, `{"number":7}`), do: func(ctx context.Context, s setting) error {
			issue, _, err := newGitHub(s).Issues.Create(ctx, "o", "r", &github.IssueRequest{Title: github.Ptr("once")})
			return unless(issue.GetNumber() == 7, err)
		}},
	},
	losses: []loss{{
		"`SleepUntilPrimaryRateLimitResetWhenRateLimited` in the context multiplies: leave it out", `^get, sleeping: .*a primary limit that lasts.* requests of`,
	}},
	scenes: []scene{
		{name: "a primary limit", times: 1, asked: 4 * time.Second, fault: primaryLimit},
		{name: "a primary limit that lasts", times: forever, fault: primaryLimit, ends: time.Minute},
	},
}

func newGitHub(s setting) *github.Client {
	options := []github.ClientOptionsFunc{github.WithHTTPClient(s.Client), github.WithEnterpriseURLs(s.url, s.url)}
	if s.over {
		options = append(options, github.WithDisableRateLimitCheck())
	}
	client, err := github.NewClient(options...)
	if err != nil {
		panic(err) // the URL is a server's of a test
	}
	return client
}

// primaryLimit says that nothing may be sent for four seconds.
func primaryLimit(w http.ResponseWriter, r *http.Request, _ *network, _ http.HandlerFunc) {
	respond(403, asJSON, `{"message":"API rate limit exceeded"}`, "X-RateLimit-Limit", "60", "X-RateLimit-Remaining", "0",
		"X-RateLimit-Reset", fmt.Sprint(time.Now().Add(4*time.Second).Unix()))(w, r)
}

var openaiRow = row{
	client:    "github.com/openai/openai-go/v3",
	how:       "`option.WithMaxRetries(0)`; [`services.OpenAI`](SERVICES.md)",
	transport: services.OpenAI.Apply,
	keep:      3,
	losses: []loss{
		{"a 501 and a 507 are not retried", `: 50[17]: fails`},
		{"a completion whose response breaks off is made again, and paid for twice", `cut.* is executed 2 times instead of 1`},
	},
	calls: []call{{
		name: "completion", limited: true,
		server: serving(200, `{"id":"c","object":"chat.completion","choices":[{"index":0,"finish_reason":"stop",`+
			`"message":{"role":"assistant","content":"yes"}}]}`),
		do: func(ctx context.Context, s setting) error {
			options := []openaioption.RequestOption{
				openaioption.WithBaseURL(s.url + "/v1/"), openaioption.WithAPIKey("key"), openaioption.WithHTTPClient(s.Client),
			}
			if s.over {
				options = append(options, openaioption.WithMaxRetries(0))
			} else if s.limit > 0 {
				options = append(options, openaioption.WithRequestTimeout(s.limit))
			}
			client := openai.NewClient(options...)
			c, err := client.Chat.Completions.New(ctx, openai.ChatCompletionNewParams{
				Model: "m", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Is it?")},
			})
			return unless(err == nil && len(c.Choices) == 1 && c.Choices[0].Message.Content == "yes", err)
		},
	}},
}

var anthropicRow = row{
	client:    "github.com/anthropics/anthropic-sdk-go",
	how:       "`option.WithMaxRetries(0)`; [`services.Anthropic`](SERVICES.md)",
	transport: services.Anthropic.Apply,
	keep:      3,
	losses:    []loss{{"a 501 and a 507 are not retried", `: 50[17]: fails`}},
	calls: []call{{
		name: "message", limited: true,
		server: serving(200, `{"id":"m","type":"message","role":"assistant","content":[{"type":"text","text":"yes"}],`+
			`"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`),
		do: func(ctx context.Context, s setting) error {
			options := []anthropicoption.RequestOption{
				anthropicoption.WithBaseURL(s.url), anthropicoption.WithAPIKey("key"), anthropicoption.WithHTTPClient(s.Client),
			}
			if s.over {
				options = append(options, anthropicoption.WithMaxRetries(0))
			} else if s.limit > 0 {
				options = append(options, anthropicoption.WithRequestTimeout(s.limit))
			}
			client := anthropic.NewClient(options...)
			m, err := client.Messages.New(ctx, anthropic.MessageNewParams{
				Model: "m", MaxTokens: 10, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Is it?"))},
			})
			return unless(err == nil && len(m.Content) == 1 && m.Content[0].Text == "yes", err)
		},
	}},
}

var stripeRow = row{
	client:    "github.com/stripe/stripe-go/v85",
	how:       "`stripe.BackendConfig{HTTPClient: client, MaxNetworkRetries: stripe.Int64(0)}`; [`services.Stripe`](SERVICES.md)",
	transport: services.Stripe.Apply,
	failure:   `{"error":{"type":"api_error","message":"failed"}}`,
	repeats:   "3 after a lost connection, else 1",
	calls: []call{{
		name: "pay", limited: true,
		server: func() http.HandlerFunc { return once(`{"id":"pi_1","object":"payment_intent","amount":500}`) },
		do: func(ctx context.Context, s setting) error {
			intent, err := newStripe(s).V1PaymentIntents.Create(ctx, &stripe.PaymentIntentCreateParams{
				Amount: stripe.Int64(500), Currency: stripe.String("eur"),
			})
			return unless(err == nil && intent.ID == "pi_1", err)
		},
	}, {
		name: "get", server: serving(200, `{"id":"pi_1","object":"payment_intent","amount":500}`),
		do: func(ctx context.Context, s setting) error {
			intent, err := newStripe(s).V1PaymentIntents.Retrieve(ctx, "pi_1", nil)
			return unless(err == nil && intent.ID == "pi_1", err)
		},
	}},
}

func newStripe(s setting) *stripe.Client {
	config := &stripe.BackendConfig{
		HTTPClient: s.Client, URL: stripe.String(s.url), LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
	}
	if s.over {
		config.MaxNetworkRetries = stripe.Int64(0)
	} else if s.limit > 0 {
		s.Timeout = s.limit // stripe-go calls the http.Client for each attempt
	}
	return stripe.NewClient("sk_test", stripe.WithBackends(stripe.NewBackendsWithConfig(config)))
}

// once returns a server that refuses a request without an Idempotency-Key, or with
// another than the first one.
func once(body string) http.HandlerFunc {
	var mu sync.Mutex
	first := ""
	return func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		key := r.Header.Get("Idempotency-Key")
		if first == "" {
			first = key
		}
		if key == "" || key != first {
			respond(400, asJSON, `{"error":{"type":"idempotency_error","message":"it would be executed twice"}}`)(w, r)
			return
		}
		respond(200, asJSON, body)(w, r)
	}
}

var gitlabRow = row{
	client: "gitlab.com/gitlab-org/api/client-go",
	how:    "`gitlab.WithoutRetries()`; `RetryAfter: untilReset`, `Policy: awsretry.IdempotentOnly(nil)`, `Peek: awsretry.WholeDocuments`",
	transport: func(tr *awsretry.Transport) {
		tr.Policy, tr.Peek, tr.RetryAfter = awsretry.IdempotentOnly(nil), awsretry.WholeDocuments, untilReset
	},
	keep: 6,
	losses: []loss{
		{"a 507 is not retried", `: 507: fails`},
		{"a `POST` is not repeated after a 5xx or a reset, because it may have been executed", `^create: POST \S+: (5\d\d|reset|cut|executed).*: fails`},
	},
	calls: []call{
		{name: "get", limited: true, server: serving(200, `{"id":1,"name":"r"}`), do: func(ctx context.Context, s setting) error {
			project, _, err := newGitLab(s).Projects.GetProject("o/r", nil, gitlab.WithContext(ctx))
			return unless(err == nil && project.Name == "r", err)
		}},
		{name: "create", server: serving(201, `{"id":70,"iid":7}`), do: func(ctx context.Context, s setting) error {
			issue, _, err := newGitLab(s).Issues.CreateIssue("o/r", &gitlab.CreateIssueOptions{Title: gitlab.Ptr("once")}, gitlab.WithContext(ctx))
			return unless(err == nil && issue.IID == 7, err)
		}},
	},
	scenes: []scene{{name: "a limit", times: 1, asked: 3 * time.Second, fault: func(w http.ResponseWriter, r *http.Request, _ *network, _ http.HandlerFunc) {
		respond(429, asJSON, `{"message":"429 Too Many Requests"}`, "RateLimit-Limit", "60", "RateLimit-Remaining", "0",
			"RateLimit-Reset", fmt.Sprint(time.Now().Add(4*time.Second).Unix()))(w, r)
	}}},
}

func newGitLab(s setting) *gitlab.Client {
	options := []gitlab.ClientOptionFunc{gitlab.WithBaseURL(s.url), gitlab.WithHTTPClient(s.Client)}
	if s.over {
		options = append(options, gitlab.WithoutRetries())
	} else if s.limit > 0 {
		s.Timeout = s.limit
	}
	client, err := gitlab.NewClient("token", options...)
	if err != nil {
		panic(err) // the URL is a server's of a test
	}
	return client
}

var slackRow = row{
	client:    "github.com/slack-go/slack",
	how:       "has none without `slack.OptionRetry`, which is left out (alone: `OptionRetry(2)`); [`services.Slack`](SERVICES.md)",
	transport: services.Slack.Apply,
	once:      func(r *http.Request) bool { return r.URL.Path != "/api/auth.test" },
	calls: []call{
		{name: "post", server: serving(200, `{"ok":true,"channel":"C1","ts":"1.2"}`), do: func(ctx context.Context, s setting) error {
			_, at, err := newSlack(s).PostMessageContext(ctx, "C1", slack.MsgOptionText("once", false))
			return unless(at == "1.2", err)
		}},
		{name: "test", server: serving(200, `{"ok":true,"user":"u"}`), do: func(ctx context.Context, s setting) error {
			who, err := newSlack(s).AuthTestContext(ctx)
			return unless(err == nil && who.User == "u", err)
		}},
	},
}

func newSlack(s setting) *slack.Client {
	options := []slack.Option{slack.OptionAPIURL(s.url + "/api/"), slack.OptionHTTPClient(s.Client)}
	if !s.over {
		options = append(options, slack.OptionRetry(2))
	}
	return slack.New("token", options...)
}
