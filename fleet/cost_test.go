package fleet_test

import (
	"bufio"
	"context"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"text/tabwriter"
	"time"

	"github.com/valkey-io/valkey-go"

	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/internal/storetest"
)

var costLength = flag.Duration("cost", 0, "how long TestCost measures each row; 0 skips the test")

// TestCost prints what sharing costs the store.
func TestCost(t *testing.T) {
	if *costLength <= 0 {
		t.Skip("give -cost=3s to measure")
	}
	const perSecond = 5 // renewals of one process in one partition
	addr := storetest.Start(t).Addr
	clients := make([]valkey.Client, 8)
	for i := range clients {
		clients[i] = storetest.Connect(t, addr)
	}
	table := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(table,
		"processes\tpartitions\tdue/s\tscripts/s\tstore CPU\tCPU µs/script\tp50 ms\tp99 ms\tbytes/partition\t")
	for _, size := range []struct{ processes, partitions int }{
		{10, 1}, {100, 1}, {1000, 1}, {10, 10}, {100, 10}, {1000, 10}, {10, 100}, {100, 100},
	} {
		prefix := fmt.Sprintf("cost%dx%d", size.processes, size.partitions)
		var renewals []func(context.Context) error
		for i := range size.processes {
			f := fleet.New(fleet.Valkey(clients[i%len(clients)]), fleet.Config{Prefix: prefix})
			defer f.Close()
			for j := range size.partitions {
				renewals = append(renewals, fleet.Renewal(f, fmt.Sprint("host", j), fmt.Sprint("process", i)))
			}
		}
		due := float64(perSecond * len(renewals))
		load(t, renewals, due, min(*costLength/4, time.Second))
		before := storeInfo(t, clients[0])
		done, late, elapsed := load(t, renewals, due, *costLength)
		after := storeInfo(t, clients[0])
		bytes, err := clients[0].Do(t.Context(),
			clients[0].B().MemoryUsage().Key(prefix+":{host0}").Build()).ToInt64()
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintf(table, "%d\t%d\t%.0f\t%.0f\t%.1f %%\t%.1f\t%.2f\t%.2f\t%d\t\n", size.processes, size.partitions, due,
			float64(done)/elapsed.Seconds(), 100*(after.cpu-before.cpu)/elapsed.Seconds(),
			1e6*(after.cpu-before.cpu)/(after.calls-before.calls),
			late[len(late)/2].Seconds()*1e3, late[len(late)*99/100].Seconds()*1e3, bytes)
	}
	table.Flush()
}

// load runs each of the renewals in turn, so many a second, if 64 at a time
// suffice. It returns how many ran and, in order, how long after it was due
// each one had ended.
func load(t *testing.T, renewals []func(context.Context) error, perSecond float64, length time.Duration) (
	done int, late []time.Duration, elapsed time.Duration,
) {
	t.Helper()
	var next atomic.Int64
	var mu sync.Mutex
	var workers sync.WaitGroup
	busy := make([]sync.Mutex, len(renewals))
	start := time.Now()
	for range min(64, len(renewals)) {
		workers.Go(func() {
			var mine []time.Duration
			for {
				i := int(next.Add(1)) - 1
				due := start.Add(time.Duration(float64(i) / perSecond * float64(time.Second)))
				if due.Sub(start) >= length || time.Since(start) >= length {
					break
				}
				time.Sleep(time.Until(due))
				of := i % len(renewals)
				busy[of].Lock()
				err := renewals[of](t.Context())
				busy[of].Unlock()
				if err != nil {
					t.Error(err)
					break
				}
				mine = append(mine, time.Since(due))
			}
			mu.Lock()
			defer mu.Unlock()
			late = append(late, mine...)
		})
	}
	workers.Wait()
	elapsed = time.Since(start)
	if len(late) == 0 {
		t.Fatal("no renewal ran")
	}
	slices.Sort(late)
	return len(late), late, elapsed
}

type info struct{ cpu, calls float64 } // seconds; scripts

func storeInfo(t *testing.T, client valkey.Client) (got info) {
	t.Helper()
	text, err := client.Do(t.Context(), client.B().Info().Section("cpu", "commandstats").Build()).ToString()
	if err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(strings.NewReader(text))
	for lines.Scan() {
		name, value, _ := strings.Cut(lines.Text(), ":")
		switch name {
		case "used_cpu_sys", "used_cpu_user":
			x, _ := strconv.ParseFloat(value, 64)
			got.cpu += x
		case "cmdstat_evalsha":
			calls, _, _ := strings.Cut(strings.TrimPrefix(value, "calls="), ",")
			got.calls, _ = strconv.ParseFloat(calls, 64)
		}
	}
	return got
}
