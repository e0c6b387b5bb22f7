package fleet

import (
	"context"
	"testing"
	"time"

	"example.com/awsretry/fleet/internal/protocol"
)

type fixedReply string

func (r fixedReply) Eval(context.Context, string, []string, []string) ([]string, error) {
	return []string{string(r)}, nil
}

// An accepted reply is within bounds.
func FuzzReply(f *testing.F) {
	f.Add(`{"epoch":"e","now":1,"rate":100,"share":20,"part":1,"members":2,"leader":true,"tokens":10,"left":490}`)
	f.Add(`{"epoch":"e","now":1e15,"cut":9e12,"gate":86400000,"rate":1e9,"share":1e9,"accepted":1e308}`)
	f.Add(`{"epoch":"e","share":98,"part":1,"members":1,"slots":30,"at":150,"every":10.2,"credit":0.5}`)
	f.Add(`{"epoch":"e","share":98,"part":1,"members":1,"slots":30,"at":800,"every":9e12}`)
	f.Add(`{"epoch":"e","rate":-1,"share":-0,"members":1e309,"tokens":1.5,"left":null,"Tripsof":0}`)
	f.Fuzz(func(t *testing.T, text string) {
		fl, err := New(fixedReply(text), Config{Prefix: "orders"})
		if err != nil {
			t.Fatal(err)
		}
		r := &protocol.Request{Wanted: 30, Asked: 50, MaxRate: 100, Lease: 400}
		got, err := fl.renew(t.Context(), "key", r)
		if err != nil {
			return
		}
		within := func(x, most float64) bool { return x >= 0 && x <= most }
		switch {
		case !within(got.Tokens, 50), !within(got.Left, mostTokens), !within(got.Members, mostMembers),
			duration(got.Gate) < 0 || duration(got.Gate) > longestGate, duration(got.Now) < 0,
			duration(got.SaidAge) < 0, !within(got.Share, r.MaxRate*(1+rounding)), !within(got.Rate, mostRate),
			!within(got.Slots, 30), !within(got.At, 800), got.Slots > 0 && duration(got.Every) < 10*time.Millisecond-1,
			duration(got.At)+time.Duration(got.Slots)*duration(got.Every) < 0,
			!within(got.Part, 1),
			!within(got.Sent, mostNumber), !within(got.TripsOf, mostNumber):
			t.Errorf("%q is accepted: %+v", text, got)
		}
	})
}
