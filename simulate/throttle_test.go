package simulate

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/simulate/scenario"
)

// The service announces what it has left, and the library reads it.
func TestAnnouncements(t *testing.T) {
	const from, taken, at = time.Second, 20, 15 * time.Second // a bucket refills by 14
	start := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for _, tt := range []struct {
		dialect string
		window  time.Duration
		want    awsretry.Limit
	}{
		{scenario.GitHub, time.Minute, awsretry.Limit{Quota: 60, Remaining: 40, Reset: 45 * time.Second}},
		{scenario.Draft6, time.Minute, awsretry.Limit{Quota: 60, Remaining: 40, Reset: 45 * time.Second}},
		{scenario.Draft8, time.Minute, awsretry.Limit{Name: "default", Quota: 60, Remaining: 40, Reset: 45 * time.Second}},
		{scenario.GitHub, 0, awsretry.Limit{Quota: 60, Remaining: 54, Reset: 6 * time.Second}},
		{scenario.OpenAI, 0, awsretry.Limit{Name: "requests", Quota: 60, Remaining: 54, Reset: 6 * time.Second, Refills: true}},
		{scenario.Anthropic, 0, awsretry.Limit{Name: "requests", Quota: 60, Remaining: 54, Reset: 6 * time.Second, Refills: true}},
		{scenario.Heroku, 0, awsretry.Limit{Remaining: 54, Reset: -1, Refills: true}},
	} {
		b := throttleBucket{rate: 1, burst: 60, window: tt.window, tokens: 60}
		for range taken {
			b.take(from)
		}
		header := b.announce(&scenario.Throttle{Announces: tt.dialect}, at, start)
		got := awsretry.ReadLimits(&http.Response{StatusCode: 200, Header: header})
		if !slices.Equal(got, []awsretry.Limit{tt.want}) {
			t.Errorf("%s, window %v: %v says %+v, want %+v", tt.dialect, tt.window, header, got, tt.want)
		}
	}
}

// A window admits its requests at any time in it, and so does the next one.
func TestWindow(t *testing.T) {
	b := throttleBucket{rate: 1, burst: 60, window: time.Minute, tokens: 60}
	for _, tt := range []struct {
		at   time.Duration
		want int
	}{{50 * time.Second, 60}, {59 * time.Second, 0}, {time.Minute, 60}, {5 * time.Minute, 60}} {
		n := 0
		for b.take(tt.at) {
			n++
		}
		if n != tt.want {
			t.Errorf("at %v: %d requests, want %d", tt.at, n, tt.want)
		}
	}
}
