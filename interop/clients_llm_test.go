package interop

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"example.com/awsretry"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
)

// modelPolicy is for the services of OpenAI and Anthropic. Their 429, 529 (overloaded) and 5xx are retried by default.
var modelPolicy = obey("X-Should-Retry")

// obey makes the policy of a service that says in a header of its own whether to retry, "true" or "false". Without it 409, a
// lock that was not had in time, is worth another attempt beside what the default retries.
func obey(header string) awsretry.Policy {
	return func(a *awsretry.Attempt) awsretry.Class {
		class := awsretry.DefaultPolicy(a)
		switch r := a.Response; {
		case r != nil && r.Header.Get(header) == "false":
			return awsretry.Permanent
		case r != nil && class == awsretry.Permanent && (r.Header.Get(header) == "true" || r.StatusCode == http.StatusConflict):
			return awsretry.Transient
		}
		return class
	}
}

func openaiCases() []clientCase {
	const prompt = "Say this is a test."
	chat := func(client *http.Client, server string) error {
		ai := openai.NewClient(openaioption.WithBaseURL(server+"/v1/"), openaioption.WithAPIKey("key"),
			openaioption.WithHTTPClient(client), openaioption.WithMaxRetries(0))
		answer, err := ai.Chat.Completions.New(context.Background(), openai.ChatCompletionNewParams{
			Model: "gpt-test", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		})
		if err == nil && (len(answer.Choices) != 1 || answer.Choices[0].Message.Content != "This is a test.") {
			err = fmt.Errorf("not the answer: %s", answer.RawJSON())
		}
		return err
	}
	stream := func(client *http.Client, server string) error {
		ai := openai.NewClient(openaioption.WithBaseURL(server+"/v1/"), openaioption.WithAPIKey("key"),
			openaioption.WithHTTPClient(client), openaioption.WithMaxRetries(0))
		events := ai.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
			Model: "gpt-test", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage(prompt)},
		})
		defer events.Close()
		var said strings.Builder
		for events.Next() {
			for _, choice := range events.Current().Choices {
				said.WriteString(choice.Delta.Content)
			}
		}
		if err := events.Err(); err != nil {
			return err
		}
		if said.String() != "This is a test." {
			return fmt.Errorf("not the answer: %q", said.String())
		}
		return nil
	}
	completion := answer(200, `{"id": "c", "object": "chat.completion", "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "This is a test."}}]}`)
	events := func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		for _, word := range []string{"This ", "is ", "a ", "test."} {
			fmt.Fprintf(w, "data: {\"object\": \"chat.completion.chunk\", \"choices\": [{\"index\": 0, \"delta\": {\"content\": %q}}]}\n\n", word)
			http.NewResponseController(w).Flush()
		}
		fmt.Fprint(w, "data: [DONE]\n\n")
	}
	tooFast := `{"error": {"message": "Rate limit reached", "type": "requests", "code": "rate_limit_exceeded"}}`
	status := func(code string) func(error) bool {
		return isError(func(e *openai.Error) bool { return e.Code == code })
	}
	return []clientCase{{
		name: "rate limit", policy: modelPolicy, call: chat, sent: 2, atLeast: time.Second,
		answers: []http.HandlerFunc{answer(429, tooFast, "Retry-After", "1", "Retry-After-Ms", "1000"), completion},
	}, {
		name: "rate limit before a stream", policy: modelPolicy, call: stream, sent: 2,
		answers: []http.HandlerFunc{answer(429, tooFast), events},
	}, {
		name: "no answer", policy: modelPolicy, call: chat, sent: 3,
		answers: []http.HandlerFunc{hangUp, hangUp, completion},
	}, {
		name: "quota used up", policy: modelPolicy, call: chat, sent: 1,
		answers: []http.HandlerFunc{answer(429, `{"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}`, "X-Should-Retry", "false")},
		failed:  status("insufficient_quota"),
	}, {
		name: "prompt too long", policy: modelPolicy, call: chat, sent: 1,
		answers: []http.HandlerFunc{answer(400, `{"error": {"message": "too long", "code": "context_length_exceeded"}}`)},
		failed:  status("context_length_exceeded"),
	}}
}

func anthropicCases() []clientCase {
	ask := func(client *http.Client, server string) error {
		ai := anthropic.NewClient(anthropicoption.WithBaseURL(server), anthropicoption.WithAPIKey("key"),
			anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(0))
		message, err := ai.Messages.New(context.Background(), anthropic.MessageNewParams{
			Model: "claude-test", MaxTokens: 16, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
		})
		if err == nil && (len(message.Content) != 1 || message.Content[0].Text != "Hi.") {
			err = fmt.Errorf("not the answer: %s", message.RawJSON())
		}
		return err
	}
	said := answer(200, `{"id": "m", "type": "message", "role": "assistant", "content": [{"type": "text", "text": "Hi."}]}`)
	fault := func(kind string) string {
		return fmt.Sprintf(`{"type": "error", "error": {"type": %q, "message": "…"}}`, kind)
	}
	return []clientCase{{
		name: "overloaded", call: ask, sent: 3, // no policy is needed
		answers: []http.HandlerFunc{answer(529, fault("overloaded_error")), answer(529, fault("overloaded_error")), said},
	}, {
		name: "retry whatever the status", policy: modelPolicy, call: ask, sent: 2,
		answers: []http.HandlerFunc{answer(404, fault("not_found_error"), "X-Should-Retry", "true"), said},
	}, {
		name: "conflict", policy: modelPolicy, call: ask, sent: 2,
		answers: []http.HandlerFunc{answer(409, fault("conflict_error")), said},
	}, {
		name: "do not retry", policy: modelPolicy, call: ask, sent: 1,
		answers: []http.HandlerFunc{answer(529, fault("overloaded_error"), "X-Should-Retry", "false")},
		failed:  isError(func(e *anthropic.Error) bool { return e.StatusCode == 529 }),
	}, {
		name: "not allowed", policy: modelPolicy, call: ask, sent: 1,
		answers: []http.HandlerFunc{answer(403, fault("permission_error"))},
		failed:  isError(func(e *anthropic.Error) bool { return e.StatusCode == 403 }),
	}}
}
