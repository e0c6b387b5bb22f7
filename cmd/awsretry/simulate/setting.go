package simulate

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"example.com/awsretry"
	"example.com/awsretry/cmd/awsretry/internal/regular"
	"example.com/awsretry/delivery"
)

// What a Setting uses.
const (
	UseNone         = "none"         // every call is sent once
	UseNaive        = "naive"        // a loop with a fixed pause: no jitter, no token bucket
	UseStandard     = "standard"     // awsretry.Standard
	UseAdaptive     = "adaptive"     // awsretry.Adaptive
	UseRevision2026 = "revision2026" // awsretry.Standard with awsretry.Revision2026
	UseLegacy       = "legacy"       // awsretry.Legacy
	UseDelivery     = "delivery"     // a delivery policy: Policy
	UseProfile      = "profile"      // what the environment and the files in ~/.aws say of a profile: Profile
)

// A Setting is one way to retry. In a file it may be its short form, as [ParseSetting] reads it.
type Setting struct {
	Use         string   `yaml:"use" json:"use"`
	Name        string   `yaml:"name,omitempty" json:"name"`                               // in the table and the pictures; "": the short form
	MaxAttempts int      `yaml:"max_attempts,omitempty" json:"max_attempts,omitempty"`     // in all, the first included; 0: the setting's own, naive 3. Not of none and delivery
	Pause       Duration `yaml:"pause,omitempty" json:"pause,omitempty"`                   // of naive; 0: 100 ms
	Policy      string   `yaml:"policy,omitempty" json:"policy,omitempty"`                 // of delivery: a JSON file, aws-managed, customer-managed, or "" for the default policy
	Profile     string   `yaml:"profile,omitempty" json:"profile,omitempty"`               // of profile; "": AWS_PROFILE, else default
	Capacity    int      `yaml:"quota_capacity,omitempty" json:"quota_capacity,omitempty"` // tokens of the retry bucket; 0: 500. Of standard, adaptive, revision2026 and profile
}

const (
	defaultNaiveAttempts = 3
	defaultNaivePause    = 100 * time.Millisecond

	defaultQuotaCapacity = 500 // awsretry.QuotaConfig's

	awsManaged      = "aws-managed"
	customerManaged = "customer-managed"
)

// DefaultSettings are compared where a scenario names none.
func DefaultSettings() []Setting {
	return []Setting{{Use: UseNone}, {Use: UseNaive}, {Use: UseLegacy}, {Use: UseStandard}, {Use: UseRevision2026}, {Use: UseAdaptive}}
}

// ParseSetting reads the short form of a setting: what it uses, and for delivery and profile, behind an equals sign, which one:
// standard, delivery=policy.json, profile=ci.
func ParseSetting(text string) (Setting, error) {
	s, err := parseSetting(text)
	if err != nil {
		return Setting{}, fmt.Errorf("simulate: %w", err)
	}
	return s, nil
}

func parseSetting(text string) (Setting, error) {
	use, which, given := strings.Cut(text, "=")
	s := Setting{Use: use}
	switch {
	case given && which == "" && (use == UseDelivery || use == UseProfile):
		return Setting{}, fmt.Errorf("setting %s: nothing follows the =; leave it out for the default", clipped(text))
	case given && use == UseDelivery:
		s.Policy = which
	case given && use == UseProfile:
		s.Profile = which
	case given:
		return Setting{}, fmt.Errorf("setting %s: only delivery and profile take a value", clipped(text))
	}
	if err := s.validate(); err != nil {
		return Setting{}, fmt.Errorf("setting %s: %w", clipped(text), err)
	}
	return s, nil
}

// Label is the setting's name in the table and the pictures.
func (s Setting) Label() string {
	switch {
	case s.Name != "":
		return s.Name
	case s.Policy != "":
		return s.Use + "=" + s.Policy
	case s.Profile != "":
		return s.Use + "=" + s.Profile
	}
	return s.Use
}

func (s Setting) validate() error {
	only := func(field string, given bool, uses ...string) error {
		for _, use := range uses {
			if s.Use == use {
				return nil
			}
		}
		if !given {
			return nil
		}
		return fmt.Errorf("%s is for %s only, not for %s", field, strings.Join(uses, ", "), s.Use)
	}
	switch s.Use {
	case UseNone, UseNaive, UseStandard, UseAdaptive, UseRevision2026, UseLegacy, UseDelivery, UseProfile:
	default:
		return fmt.Errorf("use is %s; it must be none, naive, standard, adaptive, revision2026, legacy, delivery or profile", clipped(s.Use))
	}
	switch {
	case len(s.Name) > 100:
		return fmt.Errorf("name is %s; it must be of at most 100 bytes", clipped(s.Name))
	case !printable(s.Label()):
		return fmt.Errorf("name is %s; it must be printable", clipped(s.Label()))
	case s.MaxAttempts < 0 || s.MaxAttempts > maxAttempts:
		return fmt.Errorf("max_attempts is %d; it must be 1 to %d, or 0 for the setting's own", s.MaxAttempts, maxAttempts)
	case s.Pause < 0 || s.Pause > Duration(time.Hour):
		return fmt.Errorf("pause is %v; it must be above 0 and at most 1h", s.Pause)
	case s.Capacity < 0 || s.Capacity > maxCount:
		return fmt.Errorf("quota_capacity is %d; it must be 1 to %d, or 0 for 500", s.Capacity, maxCount)
	}
	for _, err := range []error{
		only("max_attempts", s.MaxAttempts != 0, UseNaive, UseStandard, UseAdaptive, UseRevision2026, UseLegacy, UseProfile),
		only("pause", s.Pause != 0, UseNaive),
		only("policy", s.Policy != "", UseDelivery),
		only("profile", s.Profile != "", UseProfile),
		only("quota_capacity", s.Capacity != 0, UseStandard, UseAdaptive, UseRevision2026, UseProfile),
	} {
		if err != nil {
			return err
		}
	}
	return nil
}

// A maker makes one client's RoundTripper over base. The grid is that of the run, seed the client's own.
type maker struct {
	capacity int  // of the retry token bucket; 0: there is none to look at
	limits   bool // there is a rate limiter to look at
	make     func(base http.RoundTripper, attemptTimeout time.Duration, g grid, seed uint64) http.RoundTripper
}

// maker reads what the setting names, which must not happen in virtual time.
func (s Setting) maker(getenv func(string) string) (maker, error) {
	switch s.Use {
	case UseDelivery:
		policy, err := s.deliveryPolicy()
		if err != nil {
			return maker{}, err
		}
		return maker{make: func(base http.RoundTripper, timeout time.Duration, g grid, seed uint64) http.RoundTripper {
			full := seededJitter(seed)
			return &delivery.Transport{Policy: policy, Base: base, AttemptTimeout: timeout,
				Jitter: func(d time.Duration) time.Duration { return g.pause(full(d)) }}
		}}, nil
	case UseProfile:
		loaded, err := awsretry.Load(awsretry.Source{Profile: s.Profile, Getenv: getenv})
		if err != nil {
			return maker{}, err
		}
		return s.transports(loaded.Mode, loaded.Revision, loaded.MaxAttempts), nil
	case UseLegacy:
		return s.transports(awsretry.Legacy, awsretry.Classic, 0), nil
	case UseAdaptive:
		return s.transports(awsretry.Adaptive, awsretry.Classic, 0), nil
	case UseRevision2026:
		return s.transports(awsretry.Standard, awsretry.Revision2026, 0), nil
	case UseStandard:
		return s.transports(awsretry.Standard, awsretry.Classic, 0), nil
	case UseNone:
		return s.loops(1), nil
	}
	return s.loops(orElse(s.MaxAttempts, defaultNaiveAttempts)), nil
}

// loops makes clients that look at nothing: a retry whenever the class allows one, after a fixed pause.
func (s Setting) loops(attempts int) maker {
	pause := orElse(time.Duration(s.Pause), defaultNaivePause)
	return maker{make: func(base http.RoundTripper, timeout time.Duration, g grid, _ uint64) http.RoundTripper {
		fixed := g.pause(pause)
		return &awsretry.Transport{Base: base, MaxAttempts: attempts, AttemptTimeout: timeout, MaxRetryAfter: -1,
			Quota:   awsretry.QuotaConfig{Capacity: -1},
			Backoff: awsretry.BackoffFunc(func(int, awsretry.Class, time.Duration) time.Duration { return fixed })}
	}}
}

// transports makes clients of the AWS SDKs' rules.
func (s Setting) transports(mode awsretry.Mode, revision awsretry.Revision, attempts int) maker {
	if s.MaxAttempts > 0 {
		attempts = s.MaxAttempts
	}
	capacity := orElse(s.Capacity, defaultQuotaCapacity)
	if mode == awsretry.Legacy {
		capacity = 0
	}
	return maker{
		capacity: capacity,
		limits:   mode == awsretry.Adaptive,
		make: func(base http.RoundTripper, timeout time.Duration, g grid, seed uint64) http.RoundTripper {
			full := seededJitter(seed)
			pauses := seededPauses(mode, revision, full)
			return &awsretry.Transport{Base: base, Mode: mode, Revision: revision, MaxAttempts: attempts, AttemptTimeout: timeout,
				Quota:            awsretry.QuotaConfig{Capacity: s.Capacity},
				RetryAfterSpread: -1, RetryAfter: func(resp *http.Response, _ []byte) (time.Duration, bool) {
					return spreadRetryAfter(resp, mode, g, full)
				},
				Backoff: awsretry.BackoffFunc(func(n int, class awsretry.Class, last time.Duration) time.Duration {
					return g.pause(pauses.Delay(n, class, last))
				})}
		},
	}
}

// spreadRetryAfter is the pause that a Transport makes for a Retry-After where no
// spread is set, with a seeded one.
func spreadRetryAfter(resp *http.Response, mode awsretry.Mode, g grid, full awsretry.Jitter) (time.Duration, bool) {
	seconds, err := strconv.Atoi(resp.Header.Get("Retry-After"))
	asked := time.Duration(seconds) * time.Second
	if err != nil || mode == awsretry.Legacy {
		return asked, err == nil
	}
	return g.pause(asked + full(min(asked/4, 5*time.Second))), true
}

// seededPauses builds the pauses that a Transport of that mode and revision makes where none are set, from the library's public
// types and a seeded jitter; TestPausesAreTheLibrarys compares the two. Of DynamoDB's own pauses nothing is modelled.
func seededPauses(mode awsretry.Mode, revision awsretry.Revision, full awsretry.Jitter) awsretry.Backoff {
	switch {
	case mode == awsretry.Legacy:
		return awsretry.BackoffFunc(func(n int, class awsretry.Class, _ time.Duration) time.Duration {
			d := 30 * time.Millisecond
			if class == awsretry.Throttled {
				d = 500 * time.Millisecond
			}
			// The whole jitter but its last nanosecond: legacy's is from [0, d).
			return min((full(d-1)+d)<<min(n, 14), 300*time.Second)
		})
	case revision == awsretry.Revision2026:
		return awsretry.Exponential{Initial: 50 * time.Millisecond, ThrottlingInitial: time.Second, Jitter: full}
	}
	return awsretry.Exponential{Jitter: full}
}

// seededJitter is awsretry.FullJitter from a source of its own.
func seededJitter(seed uint64) awsretry.Jitter {
	var drawn atomic.Uint64
	return func(d time.Duration) time.Duration {
		return time.Duration(unit(random(seed, forJitter, drawn.Add(1))) * float64(d+1))
	}
}

func (s Setting) deliveryPolicy() (*delivery.Policy, error) {
	switch s.Policy {
	case "":
		return nil, nil
	case awsManaged:
		return delivery.AWSManaged(), nil
	case customerManaged:
		return delivery.CustomerManaged(), nil
	}
	text, err := regular.Read(s.Policy)
	if err != nil {
		return nil, err
	}
	policy, err := delivery.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", s.Policy, err)
	}
	return policy, nil
}

func orElse[T int | time.Duration | float64](v, def T) T {
	if v == 0 {
		return def
	}
	return v
}
