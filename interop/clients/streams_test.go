package clients

import (
	"compress/gzip"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"example.com/awsretry/interop/internal/kit"
	"example.com/awsretry/services"
	"github.com/anthropics/anthropic-sdk-go"
	anthropicoption "github.com/anthropics/anthropic-sdk-go/option"
)

// A stream is what a server sends, in pieces, each at once.
type stream []string

// breaks ends a stream without its end.
const breaks = "breaks"

// send writes the stream, with lines that end as end says.
func (s stream) send(w http.ResponseWriter, r *http.Request, end string, zipped bool) {
	w.Header().Set("Content-Type", "text/event-stream; charset=utf-8")
	out, flush := io.Writer(w), func() {}
	if zipped && strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		w.Header().Set("Content-Encoding", "gzip")
		zip := gzip.NewWriter(w)
		defer zip.Close()
		out, flush = zip, func() { zip.Flush() }
	}
	for _, piece := range s {
		if piece == breaks {
			panic(http.ErrAbortHandler)
		}
		io.WriteString(out, strings.ReplaceAll(piece, "\n", end))
		flush()
		http.NewResponseController(w).Flush()
		time.Sleep(time.Millisecond)
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

func parts(all ...any) (s stream) {
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
		ai := newOpenAI(client, server, 0)
		events := ai.Chat.Completions.NewStreaming(context.Background(), chatParams)
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
		streams []stream // of the attempts
		fails   bool     // after the text
	}{
		{"messages, overloaded before content", services.Anthropic, messages, []stream{
			parts(messageStart, ping, overloaded),
			parts(messageStart, blockStart, ping, breaks),
			parts(messageStart, blockStart, ping, halved(blockDelta), blockEnd),
		}, false},
		{"messages, broken off after content", services.Anthropic, messages, []stream{
			parts(messageStart, blockStart, halved(blockDelta), breaks),
		}, true},
		{"chat, an error before content", services.OpenAI, chatting, []stream{
			parts(chunkStart, chunkError), parts(breaks), parts(chunkStart, halved(chunk), chunkEnd),
		}, false},
	} {
		for _, how := range []struct {
			name, end     string
			zipped, http2 bool
		}{
			{"plain", "\n", false, false}, {"CRLF", "\r\n", false, false}, {"gzip", "\n", true, false}, {"HTTP/2", "\n", false, true},
		} {
			t.Run(tt.name+", "+how.name, func(t *testing.T) {
				var attempts atomic.Int64
				server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
					io.Copy(io.Discard, r.Body)
					n := attempts.Add(1)
					if int(n) > len(tt.streams) {
						t.Errorf("attempt %d", n)
						return
					}
					tt.streams[n-1].send(w, r, how.end, how.zipped)
				}))
				server.Config.ErrorLog = kit.Quiet
				if server.EnableHTTP2 = how.http2; how.http2 {
					server.StartTLS()
				} else {
					server.Start()
				}
				defer server.Close()
				tr := kit.Retrying(server.Client().Transport)
				tt.service.Apply(tr)
				text, err := tt.ask(&http.Client{Transport: tr}, server.URL)
				if text != answer || (err != nil) != tt.fails || int(attempts.Load()) != len(tt.streams) {
					t.Errorf("%q after %d attempts, %v", text, attempts.Load(), err)
				}
			})
		}
	}
}
