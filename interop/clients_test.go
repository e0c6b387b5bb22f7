package interop

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/services"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/elastic/elastic-transport-go/v8/elastictransport"
	"github.com/google/go-github/v75/github"
	"github.com/hashicorp/vault/api"
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

// A script has the handlers for one request after another. The last one
// responds from then on.
type script = []http.HandlerFunc

// Of each client, one request is saved by the Transport, and another must not
// be sent again.
func TestThirdPartyClients(t *testing.T) {
	for _, client := range []struct {
		name    string
		service services.Service
		once    bool // nothing is executed twice
		cases   []clientCase
	}{
		{"go-github", services.GitHub, false, githubCases()},
		{"go-github, nothing twice", services.GitHub, true, githubOnceCases()},
		{"openai-go", services.OpenAI, false, openaiCases()},
		{"anthropic-sdk-go", services.Anthropic, false, anthropicCases()},
		// A payment is repeated only with its idempotency key, which stripe-go
		// sends with every POST.
		{"stripe-go", services.Stripe, true, stripeCases()},
		{"elasticsearch", services.Service{}, false, elasticCases()},
		{"vault", services.Service{Policy: vaultPolicy}, false, vaultCases()},
	} {
		if client.once {
			client.service.Policy = awsretry.IdempotentOnly(client.service.Policy)
		}
		saved, once := 0, 0
		for _, c := range client.cases {
			if c.sent > 1 && c.failed == nil {
				saved++
			} else if c.sent == 1 && c.failed != nil {
				once++
			}
			t.Run(client.name+"/"+c.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) { c.run(t, client.service) })
			})
		}
		if saved == 0 || once == 0 {
			t.Errorf("%s: %d requests are saved and %d are sent once; the cases must have both", client.name, saved, once)
		}
	}
}

func (c clientCase) run(t *testing.T, service services.Service) {
	srv := serveScript(t, c.service...)
	tr := retrying(srv.Base)
	service.Apply(tr)
	defer tr.CloseIdleConnections()

	start := time.Now()
	err := c.call(&http.Client{Transport: tr}, srv.URL)
	if took, asked := time.Since(start), srv.retryAfter(); took < asked {
		t.Errorf("took %v; the service asked for %v", took, asked)
	}
	switch {
	case c.failed == nil && err != nil:
		t.Errorf("the call failed: %v", err)
	case c.failed != nil && (err == nil || !c.failed(err)):
		t.Errorf("the error is %v (%T), want the SDK's own for the response", err, err)
	}
	seen := srv.requests()
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
		return respond(status, fmt.Sprintf(text, code), header...)
	}
}

// notWanted returns err, or an error if an SDK did not return what it must.
func notWanted(err error, ok bool, what any) error {
	if err == nil && !ok {
		err = fmt.Errorf("not what the service sent: %v", what)
	}
	return err
}

// onGithub returns a call of go-github.
func onGithub(do func(*github.Client) error) func(*http.Client, string) error {
	return func(client *http.Client, server string) error {
		gh, err := github.NewClient(client).WithEnterpriseURLs(server, server)
		if err != nil {
			return err
		}
		gh.DisableRateLimitCheck = true // the check refuses requests that are not sent yet
		return do(gh.WithAuthToken("token"))
	}
}

var createIssue = onGithub(func(gh *github.Client) error {
	issue, _, err := gh.Issues.Create(context.Background(), "octo", "hello",
		&github.IssueRequest{Title: github.Ptr("once")})
	return notWanted(err, issue.GetNumber() == 7, issue)
})

func githubCases() []clientCase {
	getRepository := onGithub(func(gh *github.Client) error {
		repo, _, err := gh.Repositories.Get(context.Background(), "octo", "hello")
		return notWanted(err, repo.GetFullName() == "octo/hello", repo)
	})
	exceeded := func(reset time.Time) http.HandlerFunc {
		return respond(403, `{"message": "API rate limit exceeded"}`,
			"X-RateLimit-Remaining", "0", "X-RateLimit-Reset", fmt.Sprint(reset.Unix()))
	}
	midnight := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // when a synctest bubble begins
	soon := midnight.Add(time.Second)
	untilSoon := func(w http.ResponseWriter, r *http.Request) {
		handle := respond(200, `{"full_name": "octo/hello"}`)
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
			script{respond(403, secondary, "Retry-After", "1"), respond(201, `{"number": 7}`)}, 2, nil},
		{"primary rate limit that ends soon", getRepository, script{untilSoon}, 2, nil},
		{"primary rate limit that ends in two hours", getRepository, script{exceeded(midnight.Add(2 * time.Hour))}, 1,
			limited(func(reset time.Time) bool { return time.Until(reset) > 110*time.Minute })},
		{"no permission", getRepository,
			script{respond(403, `{"message": "not accessible"}`, "X-RateLimit-Remaining", "4999")}, 1,
			isError(func(e *github.ErrorResponse) bool { return e.Message == "not accessible" })},
	}
}

func githubOnceCases() []clientCase {
	return []clientCase{
		{"rate limit", createIssue, script{respond(429, "{}"), respond(201, `{"number": 7}`)}, 2, nil},
		{"an issue that may exist already", createIssue, script{respond(502, `{"message": "Server Error"}`)}, 1,
			isError(func(e *github.ErrorResponse) bool {
				return e.Response.StatusCode == 502 && e.Message == "Server Error"
			})},
	}
}

func openaiCases() []clientCase {
	params := openai.ChatCompletionNewParams{
		Model:    "gpt-test",
		Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Say this is a test.")},
	}
	const said = "This is a test."
	sdk := func(client *http.Client, server string) openai.Client {
		return openai.NewClient(openaioption.WithBaseURL(server+"/v1/"), openaioption.WithAPIKey("key"),
			openaioption.WithHTTPClient(client), openaioption.WithMaxRetries(0))
	}
	chat := func(client *http.Client, server string) error {
		ai := sdk(client, server)
		c, err := ai.Chat.Completions.New(context.Background(), params)
		return notWanted(err, err == nil && len(c.Choices) == 1 && c.Choices[0].Message.Content == said, c)
	}
	stream := func(client *http.Client, server string) error {
		ai := sdk(client, server)
		events := ai.Chat.Completions.NewStreaming(context.Background(), params)
		defer events.Close()
		var text strings.Builder
		for events.Next() {
			for _, choice := range events.Current().Choices {
				text.WriteString(choice.Delta.Content)
			}
		}
		return notWanted(events.Err(), text.String() == said, text.String())
	}
	completion := respond(200, `{"id": "c", "object": "chat.completion", "choices": [
		{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "This is a test."}}]}`)
	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for word := range strings.SplitAfterSeq(said, " ") {
			const chunk = `{"object": "chat.completion.chunk", "choices": [{"index": 0, "delta": {"content": %q}}]}`
			fmt.Fprintf(w, "data: "+chunk+"\n\n", word)
			http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
	fail := failing(`{"error": {"message": "…", "code": %q}}`)
	isCode := func(code string) func(error) bool {
		return isError(func(e *openai.Error) bool { return e.Code == code })
	}
	const limit, quota, length = "rate_limit_exceeded", "insufficient_quota", "context_length_exceeded"
	return []clientCase{
		{"rate limit", chat, script{fail(429, limit, "Retry-After", "1", "Retry-After-Ms", "1000"), completion}, 2, nil},
		{"rate limit before a stream", stream, script{fail(429, limit), events}, 2, nil},
		{"no response", chat, script{hangUp, hangUp, completion}, 3, nil},
		{"used-up quota", chat, script{fail(429, quota, "X-Should-Retry", "false")}, 1, isCode(quota)},
		{"prompt too long", chat, script{fail(400, length)}, 1, isCode(length)},
	}
}

func anthropicCases() []clientCase {
	ask := func(client *http.Client, server string) error {
		ai := anthropic.NewClient(anthropicoption.WithBaseURL(server), anthropicoption.WithAPIKey("key"),
			anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(0))
		m, err := ai.Messages.New(context.Background(), anthropic.MessageNewParams{
			Model: "claude-test", MaxTokens: 16,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
		})
		return notWanted(err, err == nil && len(m.Content) == 1 && m.Content[0].Text == "Hi.", m)
	}
	said := respond(200, `{"id": "m", "type": "message", "role": "assistant", "content": [
		{"type": "text", "text": "Hi."}]}`)
	fail := failing(`{"type": "error", "error": {"type": %q, "message": "…"}}`)
	isStatus := func(status int) func(error) bool {
		return isError(func(e *anthropic.Error) bool { return e.StatusCode == status })
	}
	const header, overloaded = "X-Should-Retry", "overloaded_error"
	return []clientCase{
		{"overloaded", ask, script{fail(529, overloaded), fail(529, overloaded), said}, 3, nil},
		{"retry whatever the status", ask, script{fail(404, "not_found_error", header, "true"), said}, 2, nil},
		{"conflict", ask, script{fail(409, "conflict_error"), said}, 2, nil},
		{"do not retry", ask, script{fail(529, overloaded, header, "false")}, 1, isStatus(529)},
		{"no permission", ask, script{fail(403, "permission_error")}, 1, isStatus(403)},
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
	payWithoutKey := func(client *http.Client, server string) error {
		return pay(&http.Client{Transport: httpfake.Base(func(req *http.Request) (*http.Response, error) {
			req = req.Clone(req.Context())
			req.Header.Del("Idempotency-Key")
			return client.Transport.RoundTrip(req)
		})}, server)
	}
	paid := respond(200, `{"id": "pi_1", "object": "payment_intent", "amount": 500}`)
	fail := failing(`{"error": {"type": "api_error", "code": %q, "message": "…"}}`)
	isCode := func(code stripe.ErrorCode) func(error) bool {
		return isError(func(e *stripe.Error) bool { return e.Code == code })
	}
	const header, locked, declined = "Stripe-Should-Retry", "lock_timeout", "card_declined"
	return []clientCase{
		{"locked object", pay, script{fail(409, locked), paid}, 2, nil},
		{"locked object, by the header", pay, script{fail(400, locked, header, "true"), paid}, 2, nil},
		{"rate limit", pay, script{fail(429, "rate_limit", "Retry-After", "1"), paid}, 2, nil},
		{"no response to a payment with a key", pay, script{hangUp, paid}, 2, nil},
		{"no response to a payment without a key, which gets one", payWithoutKey, script{hangUp, paid}, 2, nil},
		{"declined card", pay, script{fail(402, declined)}, 1, isCode(declined)},
		{"the first response is kept for the key", pay, script{fail(500, "api_error", header, "false")}, 1,
			isCode("api_error")},
	}
}

// An elasticError is a response of a status from 400 on, which the transport of
// Elasticsearch's client leaves to its caller.
type elasticError struct{ status int }

func (e *elasticError) Error() string { return http.StatusText(e.status) }

// elasticCases use the transport of go-elasticsearch. Elasticsearch rejects
// with 429 what its queues have no room for. A bulk request of index actions
// with IDs can be sent again.
func elasticCases() []clientCase {
	perform := func(
		path string, body func() io.Reader, options ...elastictransport.Option,
	) func(*http.Client, string) error {
		return func(client *http.Client, server string) error {
			node, err := url.Parse(server)
			if err != nil {
				return err
			}
			req, err := http.NewRequest(http.MethodPost, path, body())
			if err != nil {
				return err
			}
			req.Header.Set("Content-Type", "application/x-ndjson")
			elastic, err := elastictransport.NewClient(append(options, elastictransport.WithURLs(node),
				elastictransport.WithTransport(client.Transport), elastictransport.WithDisableRetry())...)
			if err != nil {
				return err
			}
			defer elastic.Close(context.Background())
			resp, err := elastic.Perform(req)
			if err != nil {
				return err
			}
			defer resp.Body.Close()
			if resp.StatusCode >= 400 {
				return &elasticError{resp.StatusCode}
			}
			var result struct{ Took int }
			err = json.NewDecoder(resp.Body).Decode(&result)
			return notWanted(err, result.Took == 30, result)
		}
	}
	lines := aStream(strings.Repeat("{\"index\": {\"_index\": \"log\", \"_id\": \"1\"}}\n{\"line\": 1}\n", 500))
	search := perform("/log/_search", inMemory(`{"query": {"match_all": }`))
	rejected := respond(429, `{"error": {"type": "es_rejected_execution_exception"}, "status": 429}`)
	const indexed = `{"took": 30, "errors": false}`
	// net/http asked for it, and decompresses it.
	compressed := respond(200, string(gzipped(indexed)), "Content-Encoding", "gzip")
	return []clientCase{
		{"full queue", perform("/_bulk", lines), script{rejected, rejected, respond(200, indexed)}, 3, nil},
		{"full queue, all compressed", perform("/_bulk", lines, elastictransport.WithCompression()),
			script{rejected, compressed}, 2, nil},
		{"node that hangs up", perform("/_bulk", lines), script{hangUp, respond(200, indexed)}, 2, nil},
		{"malformed query", search, script{respond(400, `{"status": 400}`)}, 1,
			isError(func(e *elasticError) bool { return e.status == 400 })},
	}
}

// vaultPolicy knows the 412 of a Vault node that does not have the client's
// last writes yet.
func vaultPolicy(a *awsretry.Attempt) awsretry.Class {
	if a.Response != nil && a.Response.StatusCode == http.StatusPreconditionFailed {
		return awsretry.Transient
	}
	return awsretry.DefaultPolicy(a)
}

func vaultCases() []clientCase {
	onVault := func(do func(context.Context, *api.Logical) error) func(*http.Client, string) error {
		return func(client *http.Client, server string) error {
			vault, err := api.NewClient(&api.Config{Address: server, HttpClient: client, MaxRetries: 0})
			if err != nil {
				return err
			}
			vault.SetToken("token")
			return do(context.Background(), vault.Logical())
		}
	}
	read := onVault(func(ctx context.Context, logical *api.Logical) error {
		secret, err := logical.ReadWithContext(ctx, "kv/database")
		return notWanted(err, secret != nil && secret.Data["password"] == "hunter2", secret)
	})
	write := onVault(func(ctx context.Context, logical *api.Logical) error {
		_, err := logical.WriteWithContext(ctx, "kv/database", map[string]any{"password": "hunter2"})
		return err
	})
	fail := failing(`{"errors": [%q]}`)
	behind := fail(412, "required index state not present")
	return []clientCase{
		{"rate limit quota", write, script{fail(429, "quota exceeded", "Retry-After", "1"), respond(204, "")}, 2, nil},
		{"node that is behind", read, script{behind, behind, respond(200, `{"data": {"password": "hunter2"}}`)}, 3, nil},
		{"no permission", write, script{fail(403, "permission denied")}, 1,
			isError(func(e *api.ResponseError) bool { return e.StatusCode == 403 && len(e.Errors) == 1 })},
	}
}
