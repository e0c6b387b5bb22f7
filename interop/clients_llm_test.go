package interop

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"
)

// modelPolicy is for the services of OpenAI and Anthropic. DefaultPolicy
// retries their 429, 529 (overloaded) and 5xx.
var modelPolicy = obey("X-Should-Retry")

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
		if err == nil && (len(c.Choices) != 1 || c.Choices[0].Message.Content != said) {
			err = fmt.Errorf("not the completion: %s", c.RawJSON())
		}
		return err
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
		if err := events.Err(); err != nil {
			return err
		}
		if text.String() != said {
			return fmt.Errorf("not the completion: %q", text.String())
		}
		return nil
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
	fault := func(code string) string { return fmt.Sprintf(`{"error": {"message": "…", "code": %q}}`, code) }
	isCode := func(code string) func(error) bool {
		return isError(func(e *openai.Error) bool { return e.Code == code })
	}
	return []clientCase{{
		name: "rate limit", policy: modelPolicy, call: chat, sent: 2, atLeast: time.Second,
		service: []http.HandlerFunc{
			respond(429, fault("rate_limit_exceeded"), "Retry-After", "1", "Retry-After-Ms", "1000"), completion,
		},
	}, {
		name: "rate limit before a stream", policy: modelPolicy, call: stream, sent: 2,
		service: []http.HandlerFunc{respond(429, fault("rate_limit_exceeded")), events},
	}, {
		name: "no response", policy: modelPolicy, call: chat, sent: 3,
		service: []http.HandlerFunc{hangUp, hangUp, completion},
	}, {
		name: "used-up quota", policy: modelPolicy, call: chat, sent: 1,
		service: []http.HandlerFunc{respond(429, fault("insufficient_quota"), "X-Should-Retry", "false")},
		failed:  isCode("insufficient_quota"),
	}, {
		name: "prompt too long", policy: modelPolicy, call: chat, sent: 1,
		service: []http.HandlerFunc{respond(400, fault("context_length_exceeded"))},
		failed:  isCode("context_length_exceeded"),
	}}
}

func anthropicCases() []clientCase {
	ask := func(client *http.Client, server string) error {
		ai := anthropic.NewClient(anthropicoption.WithBaseURL(server), anthropicoption.WithAPIKey("key"),
			anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(0))
		message, err := ai.Messages.New(context.Background(), anthropic.MessageNewParams{
			Model: "claude-test", MaxTokens: 16,
			Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
		})
		if err == nil && (len(message.Content) != 1 || message.Content[0].Text != "Hi.") {
			err = fmt.Errorf("not the message: %s", message.RawJSON())
		}
		return err
	}
	said := respond(200, `{"id": "m", "type": "message", "role": "assistant", "content": [
		{"type": "text", "text": "Hi."}]}`)
	fault := func(kind string) string {
		return fmt.Sprintf(`{"type": "error", "error": {"type": %q, "message": "…"}}`, kind)
	}
	overloaded := respond(529, fault("overloaded_error"))
	isStatus := func(status int) func(error) bool {
		return isError(func(e *anthropic.Error) bool { return e.StatusCode == status })
	}
	return []clientCase{{
		name: "overloaded, without a policy", call: ask, sent: 3,
		service: []http.HandlerFunc{overloaded, overloaded, said},
	}, {
		name: "retry whatever the status", policy: modelPolicy, call: ask, sent: 2,
		service: []http.HandlerFunc{respond(404, fault("not_found_error"), "X-Should-Retry", "true"), said},
	}, {
		name: "conflict", policy: modelPolicy, call: ask, sent: 2,
		service: []http.HandlerFunc{respond(409, fault("conflict_error")), said},
	}, {
		name: "do not retry", policy: modelPolicy, call: ask, sent: 1,
		service: []http.HandlerFunc{respond(529, fault("overloaded_error"), "X-Should-Retry", "false")},
		failed:  isStatus(529),
	}, {
		name: "no permission", policy: modelPolicy, call: ask, sent: 1,
		service: []http.HandlerFunc{respond(403, fault("permission_error"))},
		failed:  isStatus(403),
	}}
}
