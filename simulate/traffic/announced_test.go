package traffic

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/simulate/scenario"
)

// The fit finds in the log the limit that a service announces, and predicts the
// effect of RateLimit.Limits.
func TestAnnounced(t *testing.T) {
	const minute = 60 * second
	for _, tt := range []struct {
		name     string
		throttle scenario.Throttle
		log      string // of what: "" is standard mode
	}{
		{"a window", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.GitHub}, ""},
		{"a window, read", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.GitHub}, "limits"},
		{"a window, learned", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.GitHub}, "adaptive"},
		{"a window of a slow service", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.GitHub}, "slow"},
		{"a window of two seconds", scenario.Throttle{Rate: 10, Window: 2 * second, Announces: scenario.GitHub}, ""},
		{"a window with a name", scenario.Throttle{Rate: 10, Window: minute, Announces: scenario.Draft8}, ""},
		{"a bucket", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.OpenAI}, ""},
		{"a bucket, in whole seconds", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.Anthropic}, ""},
		{"a bucket with GitHub's headers", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.GitHub}, ""},
		{"a bucket without a reset", scenario.Throttle{Rate: 10, Burst: 200, Announces: scenario.Heroku}, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			if (raceDetector || testing.Short()) && tt.name != "a window" && tt.name != "a bucket" {
				t.Skip("it takes long; make check runs it")
			}
			t.Parallel()
			s := base(300, 0)
			s.Clients = scenario.Clients{Count: 1, Callers: 20, Timeout: 2 * minute}
			s.Service.Throttle, s.Service.Network = &tt.throttle, ms(200)
			tr := &awsretry.Transport{}
			switch tt.log {
			case "limits":
				tr.RateLimit.Limits, tr.RateLimit.Pacing = awsretry.ReadLimits, awsretry.ScaledPacing
				fallthrough
			case "adaptive":
				tr.Mode = awsretry.Adaptive
			case "slow": // and so in another order
				s.Clients.Callers, s.Service.Latency = 60, scenario.Latency{Median: second, P99: 10 * second}
			}
			log, was := recorded(t, s, tr)
			f := fitted(t, log)
			got := f.Scenario.Service.Throttle
			want := tt.throttle
			if want.Announces == scenario.Draft8 {
				want.Announces = scenario.GitHub
			}
			if want.Announces == scenario.Anthropic {
				want.Announces = scenario.OpenAI
			}
			text, err := f.File()
			if err != nil {
				t.Fatal(err)
			}
			if got == nil || got.Announces != want.Announces || got.Window != want.Window {
				t.Fatalf("the throttle is %+v, want %+v\n%s", got, want, text)
			}
			near(t, "rate", got.Rate, want.Rate, 0.03)
			near(t, "burst", got.Burst, want.Burst, 0.03)
			if use := f.Scenario.Settings[0]; use.Limits != (tt.log == "limits") {
				t.Errorf("the present setting is %+v", use)
			}
			alike(t, present(t, f.Scenario), was)
			s.Settings = []scenario.Setting{{Use: scenario.UseAdaptive, Pacing: "scaled", Limits: true}}
			f.Scenario.Settings = s.Settings
			alike(t, present(t, f.Scenario), present(t, s))
			if t.Failed() {
				t.Logf("%s", text)
			}
		})
	}
}

// announcing fits a log with a call every half second. say returns what the
// response of a call announces. Every fifth response is late.
func announcing(t *testing.T, late time.Duration, say func(i int, at time.Duration) string) *Fitted {
	var log strings.Builder
	for i := range 1200 {
		at, took := time.Duration(i)*apart, time.Millisecond
		if i%5 == 0 {
			took = max(took, late)
		}
		attributes := success + fmt.Sprintf(`,"elapsed_ms":%v`, took.Milliseconds())
		if says := say(i, max(at-took, 0)); says != "" {
			attributes += fmt.Sprintf(`,"limits":%q`, says)
		}
		log.WriteString(line(int(at.Milliseconds()), attributes))
	}
	return fitted(t, []byte(log.String()))
}

const apart = 500 * time.Millisecond

// left returns what is left of a quota in the minute, and the reset.
func left(at time.Duration, quota, cost int) string {
	return fmt.Sprintf("%d/%d %v", max(quota-cost*int(at%time.Minute/apart+1), 0), quota, time.Minute-at%time.Minute)
}

var tenASecond = scenario.Throttle{Rate: 10, Window: 60 * second, Announces: scenario.GitHub}

// Announced limits count as far as they agree with the responses.
func TestWhatIsAnnounced(t *testing.T) {
	for _, tt := range []struct {
		name string
		say  func(i int, at time.Duration) string // "": nothing
		want *scenario.Throttle
		says string // is in File
	}{
		{"a window", func(_ int, at time.Duration) string { return left(at, 600, 1) }, &tenASecond,
			"1200 of 1200 responses announce 600 in windows of 1m0s"},
		{"strangers", func(_ int, at time.Duration) string { return left(at, 600, 2) },
			&scenario.Throttle{Rate: 5, Window: 60 * second, Announces: scenario.GitHub},
			"units of the announced limit or others take"},
		{"two limits", func(_ int, at time.Duration) string {
			return "minute " + left(at, 600, 1) + ", tokens " + left(at, 72_000, 300)
		}, &scenario.Throttle{Rate: 4, Window: 60 * second, Announces: scenario.GitHub},
			`the tightest is simulated "tokens", without 600 in windows of 1m0s "minute"`},
		{"an hour", func(i int, at time.Duration) string {
			return fmt.Sprintf("%d/7200 %v", 7000-i, 59*time.Minute-at.Truncate(time.Second))
		}, &scenario.Throttle{Rate: 2, Window: 3600 * second, Announces: scenario.GitHub}, "none began after the log did"},
		{"a reset that is no countdown", func(_ int, at time.Duration) string {
			n, _, _ := strings.Cut(left(at, 600, 1), " ")
			return n + " 1m0s"
		}, &tenASecond, "comes back within its 1m0s"},

		{"it never falls", func(_ int, at time.Duration) string { return left(at, 600, 0) }, nil, "falls by 0 for a request"},
		{"nothing is left", func(_ int, at time.Duration) string { return left(at, 600, 10) }, nil,
			"admitted after nothing was left"},
		{"windows of two routes", func(i int, at time.Duration) string {
			return left(at+time.Duration(i%2)*30*time.Second, 600, 1)
		}, nil, "its windows change to and fro"},
		{"two routes in one window", func(i int, at time.Duration) string { return left(at, 600, 1+i%2*3) }, nil,
			"it rises within its windows"},
		{"two quotas", func(i int, at time.Duration) string { return left(at, 600+i%2, 1) }, nil, "its quota varies"},
		{"another route", func(i int, at time.Duration) string { return map[bool]string{true: left(at, 600, 1)}[i%2 == 0] },
			nil, "600 of 1200 responses announce none"},
		{"nothing of it is used", func(int, time.Duration) string { return "60 refills" }, nil, "too few units came back"},
		{"a reset that says nothing", func(i int, _ time.Duration) string {
			return fmt.Sprintf("%d/9 %ds refills", i%9, i*i%7)
		}, nil, "its reset does not follow from what is left"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			f := announcing(t, 0, tt.say)
			file, err := f.File()
			if err != nil {
				t.Fatal(err)
			}
			text := strings.Join(strings.Fields(strings.ReplaceAll(string(file), "#", "")), " ")
			if got := f.Scenario.Service.Throttle; (got == nil) != (tt.want == nil) || got != nil && *got != *tt.want ||
				!strings.Contains(text, tt.says) {
				t.Errorf("the throttle is %+v, want %+v and %q in\n%s", got, tt.want, tt.says, file)
			}
		})
	}
}

// Responses that arrive in the next window belong to the one before.
func TestLateResponses(t *testing.T) {
	f := announcing(t, 40*time.Second, func(_ int, at time.Duration) string { return left(at, 120, 1) })
	if got := f.Scenario.Service.Throttle; got == nil || got.Rate != 2 || got.Window != 60*second {
		t.Errorf("the throttle is %+v; unseen are %q", got, f.Unseen)
	}
}

// A window admits as many requests as are announced.
func TestWindowsRate(t *testing.T) {
	for n := range 10_000 {
		got := found{quota: float64(n + 1), cost: 1, window: time.Minute}.throttle()
		if sum := got.Rate * time.Duration(got.Window).Seconds(); int(sum) != n+1 {
			t.Fatalf("%d in a minute become %v", n+1, sum)
		}
	}
}

// Throttling that the announced limit does not explain is fitted as if no limit
// were announced.
func TestUnexplainedThrottling(t *testing.T) {
	var log strings.Builder
	for i := range 1200 {
		attributes := success
		if i%10 == 0 {
			attributes = retrying
		}
		log.WriteString(line(500*i, attributes+fmt.Sprintf(`,"limits":"%d/600 %ds"`, 600-i%120, 60-i%120/2)))
	}
	f := fitted(t, []byte(log.String()))
	if got := f.Scenario.Service.Throttle; got.Announces != "" || !unseen(f, "so something else throttles") {
		t.Errorf("the throttle is %+v; unseen are %q", got, f.Unseen)
	}
}

// Limits that are hostile or not from retrylog are counted, and do no harm.
func TestOddLimits(t *testing.T) {
	ok := line(0, success)
	for _, odd := range []string{
		`{"requests":5}`, `7`, `null`, `""`, `"many"`, `"5/6/7"`, `"-1/5 1s"`, `"NaN/5"`, `"1e300/5 1s"`, `"5/5 -1s"`,
		`"5/5 1xs"`, `"a b 5/5 1s"`, `"5/5 1s refills refills"`, `"` + strings.Repeat("1, ", 20_000) + `1"`,
	} {
		l, err := read(t, ok+strings.Replace(ok, "}", `,"limits":`+odd+"}", 1), Options{})
		if err != nil || l.Lines.Used != 2 || l.announced.odd != 1 || len(l.announced.limits) != 0 {
			t.Errorf("%.40s: %+v, %v", odd, l.announced, err)
		}
	}
	var log strings.Builder
	for i := range 3000 {
		log.WriteString(strings.Replace(ok, "}", fmt.Sprintf(`,"limits":"%d%s 5/%d 1s"}`, i, strings.Repeat("n", 300), i), 1))
	}
	l, err := read(t, log.String(), Options{})
	if err != nil || len(l.announced.limits) != mostLimits || l.announced.odd != 3000-mostLimits {
		t.Errorf("%d limits are followed, %d lines are not read, %v", len(l.announced.limits), l.announced.odd, err)
	}
}
