package simulate

import (
	"fmt"
	"testing"
	"time"

	"example.com/awsretry/simulate/scenario"
)

// BenchmarkOutage is the outage scenario with its six settings, for ten minutes.
// Its time depends on the number of attempts, its memory on the number of clients.
func BenchmarkOutage(b *testing.B) {
	for _, clients := range []int{100, 10_000} {
		b.Run(fmt.Sprint(clients, "_clients"), func(b *testing.B) {
			s, err := scenario.Ready("outage")
			if err != nil {
				b.Fatal(err)
			}
			s.Clients.Count, s.Duration = clients, scenario.Duration(10*time.Minute)
			b.ReportAllocs()
			attempts := int64(0)
			for b.Loop() {
				result, err := Run(b.Context(), s, Options{})
				if err != nil {
					b.Fatal(err)
				}
				for _, o := range result.Outcomes {
					attempts += o.Attempts
				}
			}
			b.ReportMetric(float64(attempts)/b.Elapsed().Seconds(), "attempts/s")
		})
	}
}
