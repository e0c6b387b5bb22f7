package awssdk

import (
	"slices"
	"testing"
	"time"

	"example.com/awsretry"
)

// X-Amz-Retry-After lengthens the delays of Revision2026 by 5 s at most. Both
// retry loops of the SDK sleep what the revision says, whatever the header is.
func TestAmzRetryAfter(t *testing.T) {
	for _, tt := range []struct {
		value string
		more  time.Duration // than the delays without the header
	}{
		{"", 0},
		{"9223372036854775807", 5 * time.Second},  // more nanoseconds than an int64 has
		{"18446744073709", 5 * time.Second},       // as many as overflow to a small number
		{"99999999999999999999", 5 * time.Second}, // more than an int64 has
		{"+9000", 5 * time.Second},
		{"-1", 0},
		{"2 s", 0},
	} {
		for _, revision := range []awsretry.Revision{awsretry.Classic, awsretry.Revision2026} {
			want := []time.Duration{time.Second, 2 * time.Second}
			if revision == awsretry.Revision2026 {
				want = []time.Duration{50*time.Millisecond + tt.more, 100*time.Millisecond + tt.more}
			}
			t.Run(tt.value+"/"+revision.String(), func(t *testing.T) {
				each(t, func(t *testing.T, apply bool) {
					c := newClient(apply)
					busy := step{status: 500, header: map[string]string{"X-Amz-Retry-After": tt.value}}
					c.call(t.Context(), mustRetryer(t, Config{Revision: revision}), busy, busy, busy)
					if got := c.delays(); !slices.Equal(got, want) {
						t.Errorf("the delays are %v, want %v", got, want)
					}
				})
			})
		}
	}
}
