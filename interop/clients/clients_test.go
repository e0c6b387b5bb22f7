package clients

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/services"
	"github.com/google/go-github/v75/github"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
	"github.com/stripe/stripe-go/v83"
)

// A clientCase is one call of an SDK whose own retries are off. The server
// throttles as the SDK's service does.
type clientCase struct {
	name    string
	call    func(client *http.Client, server string) error // returns nil if the SDK returns what it must
	service script
	sent    int              // requests that the server must see
	failed  func(error) bool // nil: the call must succeed
}

type script = []http.HandlerFunc // for one request after another, the last one from then on

// Of each client, one request is saved by the Transport, and another must not
// be sent again.
func TestThirdPartyClients(t *testing.T) {
	// A payment is repeated only with its idempotency key, which stripe-go sends
	// with every POST.
	payments := services.Stripe
	payments.Policy = awsretry.IdempotentOnly(payments.Policy)
	for _, client := range []struct {
		name    string
		service services.Service
		cases   []clientCase
	}{
		{"go-github", services.GitHub, githubCases()},
		{"openai-go", services.OpenAI, openaiCases()},
		{"stripe-go", payments, stripeCases()},
	} {
		for _, c := range client.cases {
			t.Run(client.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.run(t, client.service) })
			})
		}
	}
}

func (c clientCase) run(t *testing.T, service services.Service) {
	srv := kit.ServeScript(t, c.service...)
	tr := kit.Retrying(srv.Base)
	service.Apply(tr)
	defer tr.CloseIdleConnections()

	start := time.Now()
	err := c.call(&http.Client{Transport: tr}, srv.URL)
	if took, asked := time.Since(start), srv.RetryAfter(); took < asked {
		t.Errorf("took %v; the service asked for %v", took, asked)
	}
	switch {
	case c.failed == nil && err != nil:
		t.Errorf("the call failed: %v", err)
	case c.failed != nil && (err == nil || !c.failed(err)):
		t.Errorf("the error is %v (%T), want the SDK's own for the response", err, err)
	}
	seen := srv.Requests()
	if len(seen) != c.sent {
		t.Fatalf("the server saw %d requests, want %d: %q", len(seen), c.sent, seen)
	}
	for i, r := range seen {
		if r != seen[0] {
			t.Errorf("request %d was\n%+v\nthe first one\n%+v", i+1, r, seen[0])
		}
	}
}

// failing returns what makes a service's errors, of which text is the form.
func failing(text string) func(status int, code string, header ...string) http.HandlerFunc {
	return func(status int, code string, header ...string) http.HandlerFunc {
		return kit.Respond(status, fmt.Sprintf(text, code), header...)
	}
}

// notWanted returns err, or an error if an SDK did not return what it must.
func notWanted(err error, ok bool, what any) error {
	if err == nil && !ok {
		err = fmt.Errorf("not what the service sent: %v", what)
	}
	return err
}

// newGithub returns a client that is set up by change.
func newGithub(client *http.Client, server string, change func(*github.Client)) *github.Client {
	gh, err := github.NewClient(client).WithEnterpriseURLs(server, server)
	if err != nil {
		panic(err) // the URL is a server's of a test
	}
	change(gh)
	return gh
}

func githubCases() []clientCase {
	onGithub := func(do func(*github.Client) error) func(*http.Client, string) error {
		return func(client *http.Client, server string) error {
			return do(newGithub(client, server, func(gh *github.Client) {
				gh.DisableRateLimitCheck = true // the check refuses requests that are not sent yet
			}))
		}
	}
	createIssue := onGithub(func(gh *github.Client) error {
		issue, _, err := gh.Issues.Create(context.Background(), "octo", "hello",
			&github.IssueRequest{Title: github.Ptr("once")})
		return notWanted(err, issue.GetNumber() == 7, issue)
	})
	getRepository := onGithub(func(gh *github.Client) error {
		repo, _, err := gh.Repositories.Get(context.Background(), "octo", "hello")
		return notWanted(err, repo.GetFullName() == "octo/hello", repo)
	})
	exceeded := func(reset time.Time) http.HandlerFunc {
		return kit.Respond(403, `{"message": "API rate limit exceeded"}`,
			"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(reset.Unix()))
	}
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a synctest bubble begins
	soon := midnight.Add(time.Second)
	untilSoon := func(w http.ResponseWriter, r *http.Request) {
		handle := kit.Respond(200, `{"full_name": "octo/hello"}`)
		if time.Now().Before(soon) {
			handle = exceeded(soon)
		}
		handle(w, r)
	}
	limited := func(fits func(reset time.Time) bool) func(error) bool {
		return isError(func(e *github.RateLimitError) bool { return fits(e.Rate.Reset.Time) })
	}
	const secondary = `{"message": "You have exceeded a secondary rate limit.", "documentation_url": ` +
		`"https://docs.github.com/rest/overview/rate-limits-for-the-rest-api#about-secondary-rate-limits"}`
	return []clientCase{
		{"secondary rate limit", createIssue,
			script{kit.Respond(403, secondary, "Retry-After", "1"), kit.Respond(201, `{"number": 7}`)}, 2, nil},
		{"primary rate limit that ends soon", getRepository, script{untilSoon}, 2, nil},
		{"primary rate limit that ends in two hours", getRepository, script{exceeded(midnight.Add(2 * time.Hour))}, 1,
			limited(func(reset time.Time) bool { return time.Until(reset) > 110*time.Minute })},
	}
}

func newOpenAI(client *http.Client, server string, retries int) openai.Client {
	return openai.NewClient(openaioption.WithBaseURL(server+"/v1/"), openaioption.WithAPIKey("key"),
		openaioption.WithHTTPClient(client), openaioption.WithMaxRetries(retries))
}

const said = "This is a test."

var (
	chatParams = openai.ChatCompletionNewParams{
		Model:    "gpt-test",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say this is a test.")},
	}
	completion = kit.Respond(200, `{"id": "c", "object": "chat.completion", "choices": [
		{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "This is a test."}}]}`)
)

// chat makes a call whose response must be the completion.
func chat(ai openai.Client) error {
	c, err := ai.Chat.Completions.New(context.Background(), chatParams)
	return notWanted(err, err == nil && len(c.Choices) == 1 && c.Choices[0].Message.Content == said, c)
}

func openaiCases() []clientCase {
	call := func(client *http.Client, server string) error { return chat(newOpenAI(client, server, 0)) }
	fail := failing(`{"error": {"message": "…", "code": %q}}`)
	const limit, quota = "rate_limit_exceeded", "insufficient_quota"
	return []clientCase{
		{"rate limit", call, script{fail(429, limit, "Retry-After", "1", "Retry-After-Ms", "1000"), completion}, 2, nil},
		{"no response", call, script{hangUp, hangUp, completion}, 3, nil},
		{"used-up quota", call, script{fail(429, quota, "X-Should-Retry", "false")}, 1,
			isError(func(e *openai.Error) bool { return e.Code == quota })},
	}
}

func stripeCases() []clientCase {
	pay := func(client *http.Client, server string) error {
		sdk := stripe.NewClient("sk_test", stripe.WithBackends(stripe.NewBackendsWithConfig(&stripe.BackendConfig{
			HTTPClient: client, URL: stripe.String(server), MaxNetworkRetries: stripe.Int64(0),
			LeveledLogger: &stripe.LeveledLogger{Level: stripe.LevelNull},
		})))
		intent, err := sdk.V1PaymentIntents.Create(context.Background(), &stripe.PaymentIntentCreateParams{
			Amount: stripe.Int64(500), Currency: stripe.String("eur"),
		})
		return notWanted(err, err == nil && intent.ID == "pi_1", intent)
	}
	paid := kit.Respond(200, `{"id": "pi_1", "object": "payment_intent", "amount": 500}`)
	fail := failing(`{"error": {"type": "api_error", "code": %q, "message": "…"}}`)
	isCode := func(code stripe.ErrorCode) func(error) bool {
		return isError(func(e *stripe.Error) bool { return e.Code == code })
	}
	const locked, declined = "lock_timeout", "card_declined"
	return []clientCase{
		{"locked object", pay, script{fail(409, locked), paid}, 2, nil},
		{"no response", pay, script{hangUp, paid}, 2, nil},
		{"declined card", pay, script{fail(402, declined)}, 1, isCode(declined)},
	}
}

// hangUp resets the connection instead of responding. What is not sent yet is
// lost.
func hangUp(w http.ResponseWriter, _ *http.Request) {
	conn, _, err := http.NewResponseController(w).Hijack()
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	if tcp, ok := conn.(*net.TCPConn); ok {
		_ = tcp.SetLinger(0)
	}
	conn.Close()
}

// isError reports whether an error is an E that fits.
func isError[E error](fits func(E) bool) func(error) bool {
	return func(err error) bool {
		var e E
		return errors.As(err, &e) && fits(e)
	}
}
