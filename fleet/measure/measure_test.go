package measure_test

import (
	"bytes"
	"cmp"
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"text/tabwriter"
	"time"

	"github.com/valkey-io/valkey-go"

	"example.com/awsretry"
	"example.com/awsretry/fleet"
	"example.com/awsretry/fleet/fleettest"
	"example.com/awsretry/fleet/internal/storetest"
)

var (
	measure = flag.Bool("fleet", false, "measure fleets in TestMeasure, which takes minutes")
	latency = flag.Duration("latency", time.Millisecond, "of the store in memory")
	virtual = flag.Bool("virtual", false, "with -fleet: in virtual time, with a store in memory")
)

// The environment of a process that TestMeasure starts: a number, the address
// of the store, the URL of the service, and the pacing.
const memberEnv = "AWSRETRY_FLEET_MEMBER"

func TestMain(m *testing.M) {
	if member := os.Getenv(memberEnv); member != "" {
		runMember(strings.Fields(member))
		return
	}
	os.Exit(m.Run())
}

// runMember is a process of its own. It ends after two minutes at the latest.
func runMember(args []string) {
	number, addr, url := args[0], args[1], args[2]
	pacing, _ := strconv.Atoi(args[3])
	client, err := valkey.NewClient(storetest.Options(addr))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	base := headerSetter{number, &http.Transport{MaxIdleConnsPerHost: 10}}
	p := newProcess(fleet.Valkey(client), fleet.Config{}, base, awsretry.Pacing(pacing))
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	p.call(ctx, url, demand{callers: 4})
	<-ctx.Done()
}

type headerSetter struct {
	number string
	base   http.RoundTripper
}

func (h headerSetter) RoundTrip(req *http.Request) (*http.Response, error) {
	req = req.Clone(req.Context())
	req.Header.Set(processHeader, h.number)
	time.Sleep(10 * time.Millisecond)
	return h.base.RoundTrip(req)
}

// A measurement is a fleet on a service.
type measurement struct {
	*testing.T
	service   *service
	store     valkey.Client // nil in virtual time
	addr      string
	client    func() fleet.Client
	count     func() int // scripts that the store ran
	pacing    awsretry.Pacing
	host      string // of the service
	processes []*process

	mu    sync.Mutex
	rates []fleetRate

	table *tabwriter.Writer
	text  bytes.Buffer
}

type fleetRate struct {
	at   time.Duration
	rate float64
}

func newMeasurement(t *testing.T, pacing awsretry.Pacing) *measurement {
	m := &measurement{T: t, service: newService(100, 20), pacing: pacing, host: "service.test"}
	if *virtual {
		store := &fleettest.Store{Latency: *latency}
		m.client, m.count = func() fleet.Client { return store }, store.Evals
	} else {
		m.addr = storetest.Start(t).Addr
		m.store = storetest.Connect(t, m.addr)
		m.client, m.count = func() fleet.Client { return fleet.Valkey(storetest.Connect(t, m.addr)) }, m.commands
	}
	m.table = tabwriter.NewWriter(&m.text, 0, 0, 2, ' ', 0)
	fmt.Fprintln(m.table, "\nscenario\tpacing\tseconds\tgoodput\tthrottled\tover limit\tover rate\tfairness\tcommands")
	return m
}

// run runs a fleet for a time. The last row of the table is of the commands.
func (m *measurement) run(n int, length time.Duration, scenario func(ctx context.Context)) {
	ctx, cancel := context.WithTimeout(m.Context(), length)
	defer cancel()
	m.join(ctx, n, demand{callers: 4})
	watching := make(chan struct{})
	go func() {
		defer close(watching)
		m.watch(ctx)
	}()
	scenario(ctx)
	<-watching
	for _, p := range m.processes {
		p.leave()
	}
	m.table.Flush()
	m.Log(m.text.String())
}

func (m *measurement) join(ctx context.Context, n int, d demand) {
	for range n {
		base := m.service.from(len(m.processes))
		p := newProcess(m.client(), fleet.Config{OnError: onError(m.T)}, base, m.pacing)
		p.call(ctx, "http://service.test/", d)
		m.processes = append(m.processes, p)
	}
}

// watch notes the rate of the fleet.
func (m *measurement) watch(ctx context.Context) {
	for sleep(ctx, 20*time.Millisecond) {
		if rate := m.rate(ctx); rate > 0 {
			m.mu.Lock()
			m.rates = append(m.rates, fleetRate{m.service.now(), rate})
			m.mu.Unlock()
		}
	}
}

// rate returns the rate of the fleet, 0 if it is not known.
func (m *measurement) rate(ctx context.Context) float64 {
	if m.store == nil {
		if len(m.processes) == 0 {
			return 0
		}
		state, _ := m.processes[len(m.processes)-1].transport.State(m.host)
		return state.FleetRate
	}
	text, _ := m.store.Do(ctx, m.store.B().Hget().Key(m.key()).Field("rate").Build()).ToString()
	rate, _ := strconv.ParseFloat(text, 64)
	return rate
}

func (m *measurement) key() string { return "awsretry:{" + m.host + "}" }

// commands returns how many scripts the store ran.
func (m *measurement) commands() int {
	text, err := m.store.Do(context.Background(), m.store.B().Info().Section("commandstats").Build()).ToString()
	if err != nil {
		m.Error(err)
	}
	sum := 0
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(name, "cmdstat_eval") {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(calls)
			sum += n
		}
	}
	return sum
}

// rowFigures are those of a row.
type rowFigures struct{ goodput, throttled, overLimit, fairness, commands float64 }

// steady checks figures of processes that send at the rate of the service for
// a while.
func (m *measurement) steady(f rowFigures) {
	m.Helper()
	if f.goodput < 0.9 || f.throttled > 0.04 || f.overLimit > 0.4 || f.fairness < 0.95 {
		m.Errorf("a steady fleet has the figures %+v", f)
	}
}

// row measures from now until a time of the service, and prints a row. who are
// the processes whose fairness is measured.
func (m *measurement) row(name string, until time.Duration, who ...int) rowFigures {
	m.Helper()
	from, commands := m.service.now(), m.count()
	m.service.sleepUntil(until)
	perSecond := float64(m.count()-commands) / (until - from).Seconds()
	sent := m.service.between(from, until)
	accepted := 0
	by := make(map[int]float64)
	for _, x := range sent {
		if x.accepted {
			accepted++
			by[x.process]++
		}
	}
	rate := m.service.rate
	var sum, squares float64
	for _, i := range who {
		sum += by[i]
		squares += by[i] * by[i]
	}
	f := rowFigures{
		goodput:   float64(accepted) / ((until - from).Seconds() * rate),
		throttled: 1 - float64(accepted)/float64(max(len(sent), 1)),
		overLimit: m.most(sent, func(time.Duration) float64 { return rate }) - 1,
		fairness:  sum * sum / (float64(max(len(who), 1)) * cmp.Or(squares, 1)),
		commands:  perSecond / float64(max(len(m.processes), len(who), 1)),
	}
	fmt.Fprintf(m.table, "%s\t%v\t%.0f to %.0f\t%.3f\t%.1f %%\t%.0f %%\t%.0f %%\t%.3f\t%.1f\n", name, m.pacing,
		from.Seconds(), until.Seconds(), f.goodput, 100*f.throttled,
		100*f.overLimit, 100*(m.most(sent, m.granted)-1), f.fairness, f.commands)
	if f.commands > 10 {
		m.Errorf("%s: a process makes %.1f commands a second", name, f.commands)
	}
	return f
}

// most returns the most that was sent in a second, by the limit there.
func (m *measurement) most(sent []sending, limit func(at time.Duration) float64) float64 {
	most, first := 0.0, 0
	for last, x := range sent {
		for sent[first].at <= x.at-time.Second {
			first++
		}
		most = max(most, float64(last-first+1)/limit(x.at))
	}
	return most
}

// granted returns the highest rate of the fleet in the second up to at, and one
// lease before.
func (m *measurement) granted(at time.Duration) float64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	most := 1.0
	for _, r := range slices.Backward(m.rates) {
		if r.at < at-1400*time.Millisecond {
			break
		}
		if r.at <= at {
			most = max(most, r.rate)
		}
	}
	return most
}

func numbers(from, to int) []int {
	var all []int
	for i := from; i < to; i++ {
		all = append(all, i)
	}
	return all
}

func TestMeasure(t *testing.T) {
	if !*measure {
		t.Skip("measures fleets for minutes with -fleet")
	}
	scenarios := []struct {
		name string
		run  func(m *measurement)
	}{
		{"alone", measureAlone}, {"steady", measureSteady}, {"join", measureJoin},
		{"leave", measureLeave}, {"kill", measureKill},
		{"unequal", measureUnequal}, {"steps", measureSteps},
		{"stepsalone", measureStepsAlone},
	}
	for _, s := range scenarios {
		for _, pacing := range []awsretry.Pacing{awsretry.CubicPacing, awsretry.ScaledPacing} {
			t.Run(s.name+"/"+pacing.String(), func(t *testing.T) {
				if *virtual {
					synctest.Test(t, func(t *testing.T) { s.run(newMeasurement(t, pacing)) })
					return
				}
				t.Parallel()
				s.run(newMeasurement(t, pacing))
			})
		}
	}
}

// measureAlone is of one process that does as much as 20 and shares nothing,
// for comparison.
func measureAlone(m *measurement) {
	p := newProcess(nil, fleet.Config{}, m.service.from(0), m.pacing)
	m.processes = append(m.processes, p)
	m.run(0, 40*time.Second, func(ctx context.Context) {
		p.call(ctx, "http://service.test/", demand{callers: 80})
		m.row("one process, the start", 5*time.Second, 0)
		m.row("the start", 10*time.Second, 0)
		m.row("steady", 39*time.Second, 0)
	})
}

func measureSteady(m *measurement) {
	m.run(20, 40*time.Second, func(context.Context) {
		m.row("start", 5*time.Second, numbers(0, 20)...)
		m.row("steady", 10*time.Second, numbers(0, 20)...)
		m.steady(m.row("steady", 39*time.Second, numbers(0, 20)...))
	})
}

func measureJoin(m *measurement) {
	m.run(20, 25*time.Second, func(ctx context.Context) {
		m.service.sleepUntil(10 * time.Second)
		m.join(ctx, 5, demand{callers: 4})
		m.row("5 join", 11*time.Second, numbers(20, 25)...)
		m.steady(m.row("after it", 24*time.Second, numbers(0, 25)...))
	})
}

func measureLeave(m *measurement) {
	m.run(20, 25*time.Second, func(context.Context) {
		m.service.sleepUntil(10 * time.Second)
		for _, p := range m.processes[:5] {
			p.cancel()
			p.leave()
		}
		m.row("5 leave", 12*time.Second, numbers(5, 20)...)
		m.steady(m.row("after it", 24*time.Second, numbers(5, 20)...))
	})
}

func measureKill(m *measurement) {
	if *virtual {
		m.Skip("processes of their own are not in virtual time")
	}
	server := httptest.NewServer(m.service)
	defer server.Close()
	m.host = strings.TrimPrefix(server.URL, "http://")
	var children []*exec.Cmd
	for i := range 20 {
		child := exec.Command(os.Args[0])
		child.Env = append(os.Environ(), fmt.Sprintf("%s=%d %s %s %d", memberEnv, i, m.addr, server.URL, m.pacing))
		child.Stderr = os.Stderr
		if err := child.Start(); err != nil {
			m.Fatal(err)
		}
		children = append(children, child)
		defer func() {
			child.Process.Kill()
			child.Wait()
		}()
	}
	m.run(0, 25*time.Second, func(context.Context) {
		m.service.sleepUntil(8 * time.Second)
		m.row("20 of their own", 12*time.Second, numbers(0, 20)...)
		for _, child := range children[:5] {
			child.Process.Kill()
		}
		m.row("5 are killed", 14*time.Second, numbers(5, 20)...)
		m.steady(m.row("after it", 24*time.Second, numbers(5, 20)...))
	})
}

// measureUnequal is of 15 processes that want 2/s beside 5 that want much.
func measureUnequal(m *measurement) {
	m.run(5, 25*time.Second, func(ctx context.Context) {
		m.join(ctx, 15, demand{rate: 2})
		m.service.sleepUntil(8 * time.Second)
		from := m.service.now()
		m.row("5 want much", 24*time.Second, numbers(0, 5)...)
		n := 0
		for _, x := range m.service.between(from, 24*time.Second) {
			if x.process >= 5 && x.accepted {
				n++
			}
		}
		var waits []time.Duration
		for _, p := range m.processes[5:] {
			p.mu.Lock()
			waits = append(waits, p.waits...)
			p.mu.Unlock()
		}
		slices.Sort(waits)
		fmt.Fprintf(m.table, "15 want 2/s each\tget %.2f\tp50 %v\tp90 %v\tp99 %v\n", float64(n)/16/15,
			waits[len(waits)/2].Round(time.Millisecond), waits[len(waits)*9/10].Round(time.Millisecond),
			waits[len(waits)*99/100].Round(time.Millisecond))
	})
}

func measureSteps(m *measurement) {
	m.run(20, 50*time.Second, func(context.Context) { m.steps(numbers(0, 20)) })
}

// measureStepsAlone is of one process that shares nothing, for comparison.
func measureStepsAlone(m *measurement) {
	p := newProcess(nil, fleet.Config{}, m.service.from(0), m.pacing)
	m.processes = append(m.processes, p)
	m.run(0, 50*time.Second, func(ctx context.Context) {
		p.call(ctx, "http://service.test/", demand{callers: 80})
		m.steps([]int{0})
	})
}

func (m *measurement) steps(who []int) {
	m.service.sleepUntil(10 * time.Second)
	m.service.setRate(20)
	m.row("100 to 20", 15*time.Second, who...)
	m.row("after it", 25*time.Second, who...)
	m.service.setRate(200)
	m.row("20 to 200", 35*time.Second, who...)
	m.row("after it", 49*time.Second, who...)
}

// A down service is down.
type down struct{ attempts atomic.Int64 }

func (d *down) RoundTrip(req *http.Request) (*http.Response, error) {
	d.attempts.Add(1)
	return respond(req, http.StatusServiceUnavailable, nil), nil
}

// TestOutage is of 200 clients, each with 5 calls per second, whose service is
// down.
func TestOutage(t *testing.T) {
	if !*measure {
		t.Skip("measures an outage for a minute with -fleet")
	}
	const clients, rate, length = 200, 5, 20 * time.Second
	addr := storetest.Start(t).Addr
	store := fleet.Valkey(storetest.Connect(t, addr))
	for _, sharing := range []bool{false, true} {
		var service down
		var calls atomic.Int64
		ctx, cancel := context.WithTimeout(t.Context(), length)
		var processes []*process
		for range clients {
			p := &process{transport: &awsretry.Transport{
				Base: &service, Backoff: awsretry.Exponential{Initial: 50 * time.Millisecond},
			}}
			if sharing {
				p.shared = fleet.New(store, fleet.Config{OnError: onError(t)})
				p.transport.Shared = p.shared
			}
			p.counted = &calls
			p.call(ctx, "http://service.test/", demand{rate: rate})
			processes = append(processes, p)
		}
		<-ctx.Done()
		for _, p := range processes {
			p.leave()
		}
		cancel()
		load := float64(service.attempts.Load()) / float64(calls.Load())
		t.Logf("sharing %v: %d calls, load %.3f", sharing, calls.Load(), load)
		if sharing && load > 1.1 || !sharing && load < 1.5 {
			t.Errorf("sharing %v: the load is %.3f times the calls", sharing, load)
		}
	}
}
