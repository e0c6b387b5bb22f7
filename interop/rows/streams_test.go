package rows

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
	"github.com/openai/openai-go/v3"
	openaioption "github.com/openai/openai-go/v3/option"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/services"
)

// Pieces are what a server sends, each at once.
type pieces []string

// breaks ends a stream without its end.
const breaks = "breaks"

// send writes the stream, with lines that end as end says.
func (s pieces) send(w http.ResponseWriter, r *http.Request, end string, zipped bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out, flush := io.Writer(w), func() {}
	if zipped && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer zip.Close()
		out, flush = zip, func() { zip.Flush() }
	}
	for _, piece := range s {
		time.Sleep(time.Millisecond) // the client has read the piece before
		if piece == breaks {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(out, strings.ReplaceAll(piece, "\n", end))
		flush()
		http.NewResponseController(w).Flush()
	}
}

// The text of each answer has a letter of two bytes, which come in two pieces.
const answer = "Sch\u00f6n."

func event(name, data string) string { return "event: " + name + "\ndata: " + data + "\n\n" }

// halved returns a piece as two, cut within the letter.
func halved(piece string) []string {
	i := strings.Index(piece, "\u00f6") + 1
	return []string{piece[:i], piece[i:]}
}

var (
	messageStart = event("message_start", `{"type":"message_start","message":{"id":"m","type":"message","role":"assistant","content":[],"model":"x","stop_reason":null,"stop_sequence":null,"usage":{"input_tokens":1,"output_tokens":1}}}`)
	blockStart   = event("content_block_start", `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`)
	ping         = event("ping", `{"type": "ping"}`)
	blockDelta   = event("content_block_delta", `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"`+answer+`"}}`)
	blockEnd     = event("content_block_stop", `{"type":"content_block_stop","index":0}`) + event("message_stop", `{"type":"message_stop"}`)
	overloaded   = event("error", `{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}`)

	chunkStart = `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}` + "\n\n"
	chunk      = `data: {"object":"chat.completion.chunk","choices":[{"index":0,"delta":{"content":"` + answer + `"},"finish_reason":null}]}` + "\n\n"
	chunkEnd   = "data: [DONE]\n\n"
	chunkError = `data: {"error":{"message":"overloaded","type":"server_error","code":null}}` + "\n\n"
)

func parts(all ...any) (s pieces) {
	for _, one := range all {
		switch one := one.(type) {
		case string:
			s = append(s, one)
		case []string:
			s = append(s, one...)
		}
	}
	return s
}

// An event stream that fails before its first content is sent again by the
// transport, and never after; what the SDK reads is whole, and there once.
func TestStreams(t *testing.T) {
	messages := func(client *http.Client, server string) (text string, err error) {
		ai := anthropic.NewClient(anthropicoption.WithBaseURL(server), anthropicoption.WithAPIKey("key"),
			anthropicoption.WithHTTPClient(client), anthropicoption.WithMaxRetries(0))
		events := ai.Messages.NewStreaming(context.Background(), anthropic.MessageNewParams{
			Model: "x", MaxTokens: 16, Messages: []anthropic.MessageParam{anthropic.NewUserMessage(anthropic.NewTextBlock("Hello"))},
		})
		defer events.Close()
		for events.Next() {
			text += events.Current().Delta.Text
		}
		return text, events.Err()
	}
	chatting := func(client *http.Client, server string) (text string, err error) {
		ai := openai.NewClient(openaioption.WithBaseURL(server+"/v1/"), openaioption.WithAPIKey("key"),
			openaioption.WithHTTPClient(client), openaioption.WithMaxRetries(0))
		events := ai.Chat.Completions.NewStreaming(context.Background(), openai.ChatCompletionNewParams{
			Model: "x", Messages: []openai.ChatCompletionMessageParamUnion{openai.UserMessage("Hello")},
		})
		defer events.Close()
		for events.Next() {
			for _, choice := range events.Current().Choices {
				text += choice.Delta.Content
			}
		}
		return text, events.Err()
	}
	for _, tt := range []struct {
		name    string
		service services.Service
		ask     func(*http.Client, string) (string, error)
		streams []pieces // of the attempts
		fails   bool     // after the text
	}{
		{"messages, overloaded before content", services.Anthropic, messages, []pieces{
			parts(messageStart, ping, overloaded),
			parts(messageStart, blockStart, ping, breaks),
			parts(messageStart, blockStart, ping, halved(blockDelta), blockEnd),
		}, false},
		{"messages, broken off after content", services.Anthropic, messages, []pieces{
			parts(messageStart, blockStart, halved(blockDelta), breaks),
		}, true},
		{"chat, an error before content", services.OpenAI, chatting, []pieces{
			parts(chunkStart, chunkError), parts(breaks), parts(chunkStart, halved(chunk), chunkEnd),
		}, false},
	} {
		for _, how := range []struct {
			name, protocol, end string
			zipped              bool
		}{
			{"plain", "HTTP/1.1", "\n", false}, {"CRLF", "HTTP/1.1", "\r\n", false},
			{"gzip", "HTTP/1.1", "\n", true}, {"HTTP/2", "HTTP/2", "\n", false},
		} {
			t.Run(tt.name+", "+how.name, func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					var attempts atomic.Int64
					server := httpfake.Serve(t, how.protocol, func(w http.ResponseWriter, r *http.Request) {
						io.Copy(io.Discard, r.Body)
						n := attempts.Add(1)
						if int(n) > len(tt.streams) {
							t.Errorf("attempt %d", n)
							return
						}
						tt.streams[n-1].send(w, r, how.end, how.zipped)
					})
					tr := &awsretry.Transport{Base: server.Base}
					defer tr.CloseIdleConnections()
					tt.service.Apply(tr)
					text, err := tt.ask(&http.Client{Transport: tr}, server.URL)
					if text != answer || (err != nil) != tt.fails || int(attempts.Load()) != len(tt.streams) {
						t.Errorf("%q after %d attempts, %v", text, attempts.Load(), err)
					}
				})
			})
		}
	}
}
