package admission

import (
	"testing"

	"example.com/awsretry/internal/pacer"
	"example.com/awsretry/internal/tokens"
)

func newPartition() *Partition {
	return &Partition{
		Quota: tokens.NewQuota(tokens.QuotaConfig{Capacity: 10}),
		Pacer: pacer.New(pacer.Config{MinFillRate: 1}),
	}
}

// Tokens have one owner, which puts them back or gives them up once.
func TestPermitOwnsItsTokens(t *testing.T) {
	for _, putBack := range []bool{true, false} {
		p, want := newPartition(), 3
		if putBack {
			want = 10
		}
		var permit Permit
		if !permit.Draw(p, 7) || permit.Draw(p, 7) {
			t.Fatal("it did not draw 7 tokens of 10, once")
		}
		moved := permit.Move()
		permit.Release(!putBack)
		for range 2 {
			moved.Release(putBack)
		}
		if got := p.Quota.Tokens(); got != want {
			t.Errorf("Release(%v): %d tokens, want %d", putBack, got, want)
		}
	}
}
