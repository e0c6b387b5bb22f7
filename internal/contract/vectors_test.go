package contract_test

import (
	"context"
	"errors"
	"net/http"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
	"example.com/awsretry/internal/vectors"
)

// The AWS documents' examples and the AWS SDKs' own test cases, without jitter.
func TestVectors(t *testing.T) {
	for _, v := range vectors.Read(t, "../../testdata/vectors/retry.json") {
		if v.Revision == int(awsretry.Revision2026) && v.Source == "" {
			t.Errorf("%s: no source", v.Name)
		}
		inBubble(t, v.Name, func(t *testing.T) {
			tr := &transport{
				Mode: awsretry.Mode(v.Mode), Revision: awsretry.Revision(v.Revision), MaxAttempts: v.MaxAttempts,
				Quota:            quota{Capacity: v.Capacity},
				Backoff:          awsretry.Exponential{Max: time.Duration(v.MaxBackoff), Jitter: awsretry.NoJitter},
				RetryAfterSpread: -1,
				Base: httpfake.Base(func(req *http.Request) (*http.Response, error) {
					return req.Context().Value(playedKey{}).(*played).answer(req)
				}),
			}
			play := func(c vectors.Call) vectors.Trace { return playVector(t, tr, v.Target, c) }
			v.Test(t, play, func() int { return tokensOf(t, tr) })
		})
	}
}

// played is what was seen of a vector's call so far. The context of the call
// has it.
type played struct {
	vectors.Trace
	call vectors.Call
}

type playedKey struct{}

func (p *played) answer(req *http.Request) (*http.Response, error) {
	if len(p.Sent) == len(p.call.Answers) {
		return nil, errors.New("more attempts than answers")
	}
	next := p.call.Answers[len(p.Sent)]
	p.Sent = append(p.Sent, time.Now())
	resp := httpfake.Empty(next.Status, req)
	for name, value := range next.Header {
		resp.Header.Set(name, value)
	}
	return resp, nil
}

// playVector makes one call of a vector. It also compares the records of the
// attempts with the call.
func playVector(t *testing.T, tr *transport, target string, c vectors.Call) vectors.Trace {
	p := &played{Trace: vectors.Trace{Start: time.Now()}, call: c}
	var last awsretry.Attempt
	ctx := awsretry.WithObserver(context.WithValue(t.Context(), playedKey{}, p), func(a awsretry.Attempt) {
		last, p.Stop = a, string(a.Stop)
		p.Tokens = append(p.Tokens, tokensOf(t, tr))
	})
	req := httpfake.Request(t, ctx, "POST", nil)
	if target != "" {
		req.Header.Set("X-Amz-Target", target)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil || resp.StatusCode != c.Status {
		t.Errorf("%v, %v, want %d", resp, err, c.Status)
		return p.Trace
	}
	if last.Delay != time.Duration(c.End) || last.Number != len(c.Answers) {
		t.Errorf("the last attempt is %d, delay %v; want %d, %v", last.Number, last.Delay, len(c.Answers), c.End)
	}
	record, ok := awsretry.Outcome(resp)
	if want := len(c.Answers) > 1 || last.Class != awsretry.Success; ok != want {
		t.Errorf("Outcome reports %v, want %v", ok, want)
	}
	if ok && (string(record.Stop) != c.Stop || record.Number != len(c.Answers) || record.Response != resp) {
		t.Errorf("Outcome is %+v", record)
	}
	return p.Trace
}
