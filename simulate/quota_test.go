package simulate

import (
	"testing"

	"example.com/awsretry/simulate/scenario"
)

// One caller retries until its bucket is empty.
func TestQuotas(t *testing.T) {
	for _, tt := range []struct {
		quota    string
		capacity int
		retries  int64 // after 503 responses
		throttle int64 // retries after 429 responses
	}{
		{"", 20, 4, 2},
		{scenario.QuotaDocuments, 20, 4, 2},
		{scenario.QuotaSDK, 20, 4, 4},
		{scenario.Quota2026, 20, 1, 4},
	} {
		t.Run("quota "+tt.quota, func(t *testing.T) {
			s := tiny(scenario.Setting{Use: scenario.UseStandard, Quota: tt.quota, Capacity: tt.capacity})
			s.Clients.Think = ms(50)
			s.Duration = seconds(20)
			s.Events = []scenario.Event{{Kind: scenario.Outage}}
			if o := mustRun(t, s).Outcomes[0]; o.Attempts-o.Calls != tt.retries {
				t.Errorf("%d retries after 503 responses, want %d", o.Attempts-o.Calls, tt.retries)
			}
			s.Events = nil
			s.Service.Throttle = &scenario.Throttle{Rate: 0.001, Burst: 1}
			if o := mustRun(t, s).Outcomes[0]; o.Attempts-o.Calls != tt.throttle {
				t.Errorf("%d retries after 429 responses, want %d", o.Attempts-o.Calls, tt.throttle)
			}
		})
	}
}

// Without a bucket there are no tokens to show, but there is a send rate.
func TestNoQuota(t *testing.T) {
	s := tiny(scenario.Setting{Use: scenario.UseAdaptive, Quota: scenario.QuotaNone})
	s.Service.Throttle = &scenario.Throttle{Rate: 5, Burst: 1}
	series := mustRun(t, s).Outcomes[0].Series
	if series.Tokens != nil || len(series.SendRate) != 10 || series.SendRate[9].Limited != 1 {
		t.Errorf("tokens %v and send rates %v, want none and one for each second", series.Tokens, series.SendRate)
	}
}
