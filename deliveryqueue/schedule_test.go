package deliveryqueue

import (
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/internal/httpfake"
)

func TestSchedule(t *testing.T) {
	t.Parallel()
	double := awsretry.Exponential{Initial: time.Hour, Max: 12 * time.Hour}
	for _, tt := range []struct {
		backoff awsretry.Backoff
		maxAge  time.Duration
		hours   []int
	}{
		{double, 72 * time.Hour, []int{1, 2, 4, 8, 12, 12, 12, 12}},
		{double, 63 * time.Hour, []int{1, 2, 4, 8, 12, 12, 12, 12}},
		{double, 63*time.Hour - 1, []int{1, 2, 4, 8, 12, 12, 12}},
		{double, 0, nil},
		{awsretry.BackoffFunc(func(_ int, _ awsretry.Class, last time.Duration) time.Duration { return last + time.Hour }),
			6 * time.Hour, []int{1, 2, 3}},
	} {
		policy := Schedule(tt.backoff, tt.maxAge)
		var hours []int
		for _, d := range policy.Schedule {
			hours = append(hours, int(d/time.Hour))
		}
		if !slices.Equal(hours, tt.hours) || policy.Schedule == nil || policy.ValidateRaw() != nil {
			t.Errorf("in %v: %v, want %v; %v", tt.maxAge, hours, tt.hours, policy.ValidateRaw())
		}
	}
	if err := Schedule(awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return -1 }), 1).ValidateRaw(); err == nil {
		t.Error("a schedule without end is valid")
	}
}

// The attempts of a delivery follow its schedule, for days.
func TestDeliveryBySchedule(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		q := open(t, store, Config{Base: httpfake.Statuses(503)})
		id := enqueue(t, q, post(t, "http://endpoint.test", "hello"), Options{
			Policy: Schedule(awsretry.Exponential{Initial: 10 * time.Hour, Factor: 4, Max: 40 * time.Hour}, 50*time.Hour),
		})
		start(t, q)
		for n, delay := range []time.Duration{10 * time.Hour, 40 * time.Hour} {
			eventually(t, "an attempt", func() bool { return get(t, q, id).Attempts > n })
			if d := get(t, q, id); (time.Until(d.Next) - delay).Abs() > delay/10+time.Minute {
				t.Errorf("attempt %d follows in %v: %+v", n+2, time.Until(d.Next), d)
			}
			setJob(t, q, id, `state = 'available', scheduled_at = `+q.store.after(`0`))
		}
		waitFor(t, q, Stats{Dead: 1})
		if d := get(t, q, id); d.Attempts != 3 || d.Reason != string(awsretry.StopMaxAttempts) {
			t.Errorf("%+v", d)
		}
	})
}
