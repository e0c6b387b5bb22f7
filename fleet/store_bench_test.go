package fleet_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/protocol"
	"example.com/awsretry/fleet/internal/storetest"
)

// BenchmarkRenewal prints what a renewal costs the store: CPU time, the memory of a
// partition, and the bytes that are sent.
func BenchmarkRenewal(b *testing.B) {
	const processes = 100
	store := storetest.Start(b)
	client := fleet.Valkey(storetest.Connect(b, store.Addr))
	last := make([]atomic.Pointer[protocol.Last], processes)
	var next, asked, replied atomic.Int64
	before := cpuSeconds(b, store)
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			i := next.Add(1) % processes
			args := renewal(func(r *protocol.Request) {
				r.ID, r.Sent, r.Wanted = fmt.Sprint("process", i), 2, 3
				if had := last[i].Load(); had != nil {
					r.Last = *had
				}
			})
			got, err := client.Eval(context.Background(), fleet.Script, []string{key}, args)
			if err != nil {
				b.Error(err)
				return
			}
			reply := read[protocol.Reply](got)
			last[i].Store(&reply.Last)
			asked.Store(int64(len(args[0])))
			replied.Store(int64(len(got[0])))
		}
	})
	b.StopTimer()
	b.ReportMetric((cpuSeconds(b, store)-before)*1e6/float64(b.N), "µs-of-store/op")
	bytes, _ := strconv.ParseFloat(store.Do("MEMORY", "USAGE", key), 64)
	b.ReportMetric(bytes, "B/partition")
	b.ReportMetric(float64(asked.Load()), "B/request")
	b.ReportMetric(float64(replied.Load()), "B/reply")
}

// cpuSeconds returns how much CPU time a server has used.
func cpuSeconds(b *testing.B, s *storetest.Server) (sum float64) {
	b.Helper()
	for line := range strings.Lines(s.Do("INFO", "cpu")) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		if name == "used_cpu_sys" || name == "used_cpu_user" {
			x, _ := strconv.ParseFloat(value, 64)
			sum += x
		}
	}
	return sum
}
