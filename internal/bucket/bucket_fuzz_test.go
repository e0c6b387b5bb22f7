package bucket

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"example.com/awsretry/internal/waittest"
)

// fault returns which of the bucket's numbers is out of bounds, or "".
func fault(b *Bucket) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	queued := 0.0
	for e := b.line.Front(); e != nil; e = e.Next() {
		queued += e.Value.(*waiter).n
	}
	tokens := b.tokensAt(b.Now())
	switch {
	case b.queued != queued:
		return fmt.Sprintf("the line waits for %v tokens, counted are %v", queued, b.queued)
	case !(b.tokens >= 0 && b.tokens <= b.capacity && tokens >= 0 && tokens <= b.capacity):
		return fmt.Sprintf("%v and now %v of %v tokens", b.tokens, tokens, b.capacity)
	case (b.line.Len() > 0) != (b.timer != nil):
		return fmt.Sprintf("%d in line, timer %v", b.line.Len(), b.timer)
	}
	return ""
}

// FuzzBucket takes each byte for an operation or a time that passes, in virtual
// time.
func FuzzBucket(f *testing.F) {
	f.Add([]byte("\x00\x01\x02\x03\x04\x05\x06\x07"))
	f.Add([]byte(strings.Repeat("\x01\x02\x02\x02\x83\x00", 20)))
	f.Add([]byte("\x0a\x0a\x0a\xfb\x2b\x09\x1e\xf9\xfe\x11\xff\x18"))
	f.Fuzz(func(t *testing.T, ops []byte) {
		ops = ops[:min(len(ops), 500)]
		synctest.Test(t, func(t *testing.T) {
			b, q := newEmpty(1, 4), waittest.NewQueue()
			started := 0
			for i, op := range ops {
				switch arg := time.Duration(op >> 3); op & 7 {
				case 0:
					b.Put(float64(arg) / 4)
				case 1:
					rate := float64(1+arg) / 4
					b.SetRate(b.Now(), rate, max(rate, 4))
				case 2:
					started++
					join(t.Context(), q, b, i, float64(1+arg%4))
				case 3:
					started++
					q.Join(i, func() error {
						start := time.Now()
						ctx, cancel := context.WithDeadline(t.Context(), start.Add(arg*100*time.Millisecond))
						defer cancel()
						err := b.Wait(ctx, float64(1+arg%4))
						if tooLong := new(TooLongError); errors.As(err, &tooLong) && time.Since(start) != 0 {
							t.Errorf("refused after %v", time.Since(start))
						}
						return err
					})
				case 4:
					before := b.Tokens()
					waiting, _ := b.Line(1)
					took := b.Take(1)
					if took && waiting > 0 || !near(before, 1, 1e-8) && waiting == 0 && took != (before > 1) {
						t.Fatalf("Take(1) is %v with %v tokens and %d in line", took, before, waiting)
					}
				case 5:
					time.Sleep(arg * time.Nanosecond)
				case 6:
					time.Sleep(arg * 10 * time.Millisecond)
				case 7:
					time.Sleep(arg * arg * arg * time.Second)
				}
				synctest.Wait()
				if found := fault(b); found != "" {
					t.Fatal(found)
				}
			}
			ended := q.Wait()
			wantIdle(t, b)
			if len(ended) != started || !waittest.InOrder(ended) {
				t.Fatalf("%d callers ended in this order: %v", started, ended)
			}
			for _, e := range ended {
				if patient := ops[e.ID]&7 == 2; patient && e.Err != nil {
					t.Fatalf("caller %d: %v", e.ID, e.Err)
				}
			}
		})
	})
}
