package scenario

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"example.com/awsretry"
)

// What a Setting uses.
const (
	UseNone         = "none"         // every call is sent once
	UseNaive        = "naive"        // a loop with a fixed delay: no jitter, no token bucket
	UseStandard     = "standard"     // awsretry.Standard
	UseAdaptive     = "adaptive"     // awsretry.Adaptive
	UseFleet        = "fleet"        // awsretry.Adaptive, shared by all clients through a store
	UseRevision2026 = "revision2026" // awsretry.Standard with awsretry.Revision2026
	UseLegacy       = "legacy"       // awsretry.Legacy
	UseDelivery     = "delivery"     // a delivery policy: Policy
	UseProfile      = "profile"      // the settings of a profile in the environment and the files in ~/.aws: Profile
)

// The values of [Setting].Quota.
const (
	QuotaDocuments = "documents"
	QuotaSDK       = "sdk"
	Quota2026      = "2026"
	QuotaNone      = "none"
)

// The ready policies of delivery.
const (
	AWSManaged      = "aws-managed"
	CustomerManaged = "customer-managed"
)

// A Setting is one way to retry. In a file it may be its short form, as
// [ParseSetting] reads it.
type Setting struct {
	Use  string `yaml:"use" json:"use"`
	Name string `yaml:"name,omitempty" json:"name"` // in the table and the picture; "": the short form

	// MaxAttempts includes the first attempt. 0 means the setting's own, and 3
	// for naive. It is not for none and delivery.
	MaxAttempts int `yaml:"max_attempts,omitempty" json:"max_attempts,omitempty"`

	// Pause is the delay of naive. 0 means 100 ms.
	Pause Duration `yaml:"pause,omitempty" json:"pause,omitempty"`

	// Policy is the policy of delivery: a JSON file, aws-managed or
	// customer-managed. "" means the default policy.
	Policy string `yaml:"policy,omitempty" json:"policy,omitempty"`

	// Profile is the profile of profile. "" means AWS_PROFILE, or else default.
	Profile string `yaml:"profile,omitempty" json:"profile,omitempty"`

	// Pacing is the arithmetic of the rate limiter of adaptive and fleet, and of
	// a profile in adaptive mode: cubic or scaled. "" means cubic.
	Pacing string `yaml:"pacing,omitempty" json:"pacing,omitempty"`

	// Lease is how long the leases of fleet are: fleet.Config.Lease. 0 means
	// 400 ms.
	Lease Duration `yaml:"lease,omitempty" json:"lease,omitempty"`

	// StoreLatency is how long the store of fleet takes for a renewal. 0 means
	// 1 ms.
	StoreLatency Duration `yaml:"store_latency,omitempty" json:"store_latency,omitempty"`

	// Capacity is the tokens of the retry bucket of standard, adaptive, fleet,
	// revision2026 and profile. 0 means 500. The clients of fleet share them.
	Capacity int `yaml:"quota_capacity,omitempty" json:"quota_capacity,omitempty"`

	// LongPoll makes every request of standard, adaptive, fleet, revision2026
	// and profile one for which Transport.LongPoll reports true.
	LongPoll bool `yaml:"long_poll,omitempty" json:"long_poll,omitempty"`

	// Quota is what the retries of standard, adaptive, fleet, revision2026 and
	// profile cost: documents (of the AWS SDK for Kotlin), sdk (as the AWS SDKs
	// for Go and Python have it), 2026, or none for retries without limit. ""
	// means the revision's.
	Quota string `yaml:"quota,omitempty" json:"quota,omitempty"`

	// ShareRetryAfter is Transport.ShareRetryAfter, NoSpread is a negative
	// Transport.RetryAfterSpread, and Resume is Transport.Resume, of standard,
	// adaptive, fleet, revision2026 and profile.
	ShareRetryAfter bool `yaml:"share_retry_after,omitempty" json:"share_retry_after,omitempty"`
	NoSpread        bool `yaml:"no_spread,omitempty" json:"no_spread,omitempty"`
	Resume          bool `yaml:"resume,omitempty" json:"resume,omitempty"`

	// New makes a client's RoundTripper over base, for programs that simulate
	// retries of another kind. It is called in virtual time, once for each
	// client. If it is set, Name must be set and the other fields must not be.
	//
	// The RoundTripper passes each request's context on to base, sends one
	// attempt of a call after the other, and waits only for timers and for
	// other calls of the run. Clients.AttemptTimeout is a limit of base: after
	// that time base returns an error whose Timeout method reports true, as an
	// http.Transport with a ResponseHeaderTimeout does.
	New func(base http.RoundTripper) http.RoundTripper `yaml:"-" json:"-"`
}

const (
	leastLease   = Duration(50 * time.Millisecond) // fleet.Config's
	longestLease = Duration(time.Minute)           // the same
)

// DefaultSettings returns the settings of a scenario that names none.
func DefaultSettings() []Setting {
	return []Setting{
		{Use: UseNone}, {Use: UseNaive}, {Use: UseLegacy}, {Use: UseStandard}, {Use: UseRevision2026},
		{Use: UseAdaptive},
	}
}

// ParseSetting parses the short form of a setting: what it uses and, for
// adaptive, fleet, delivery and profile, an equals sign and which one. Examples
// are standard, adaptive=scaled, delivery=policy.json and profile=ci. For
// standard, adaptive, fleet and revision2026, options may follow, each after a
// plus sign: long_poll, share_retry_after, no_spread, resume and quota=NAME.
func ParseSetting(text string) (Setting, error) {
	s, err := parseSetting(text)
	if err != nil {
		return Setting{}, fmt.Errorf("simulate: %w", err)
	}
	return s, nil
}

func parseSetting(text string) (Setting, error) {
	short, options := cutOptions(text)
	use, which, given := strings.Cut(short, "=")
	s := Setting{Use: use}
	switch {
	case given && which == "" && (use == UseAdaptive || use == UseFleet || use == UseDelivery || use == UseProfile):
		return Setting{}, fmt.Errorf("setting %s: nothing follows the =; omit it for the default", clipped(text))
	case given && (use == UseAdaptive || use == UseFleet):
		s.Pacing = which
	case given && use == UseDelivery:
		s.Policy = which
	case given && use == UseProfile:
		s.Profile = which
	case given:
		return Setting{}, fmt.Errorf("setting %s: only adaptive, fleet, delivery and profile take a value",
			clipped(text))
	}
	err := s.setOptions(options)
	if err == nil {
		err = s.validate()
	}
	if err != nil {
		return Setting{}, fmt.Errorf("setting %s: %w", clipped(text), err)
	}
	return s, nil
}

// Label returns the setting's name in the table and the picture.
func (s Setting) Label() string {
	label := s.Use
	switch {
	case s.Name != "":
		return s.Name
	case s.Policy != "":
		label += "=" + s.Policy
	case s.Profile != "":
		label += "=" + s.Profile
	case s.Pacing != "" && s.Use != UseProfile:
		label += "=" + s.Pacing
	}
	if s.Pacing != "" && s.Use == UseProfile {
		label += ", " + s.Pacing
	}
	for _, o := range s.options() {
		label += ", " + o
	}
	return label
}

func (s Setting) validate() error {
	switch {
	case len(s.Name) > maxNameBytes:
		return fmt.Errorf("name is %s; it must have at most %d bytes", clipped(s.Name), maxNameBytes)
	case !printable(s.Label()):
		return fmt.Errorf("name is %s; it must be printable", clipped(s.Label()))
	case s.New != nil:
		return s.validateNew()
	case s.MaxAttempts < 0 || s.MaxAttempts > maxAttempts:
		return fmt.Errorf("max_attempts is %d; it must be 1 to %d, or 0 for the setting's own",
			s.MaxAttempts, maxAttempts)
	case s.Pause < 0 || s.Pause > Duration(time.Hour):
		return fmt.Errorf("pause is %v; it must be above 0 and at most 1h", s.Pause)
	case s.Pacing != "" && s.Pacing != awsretry.CubicPacing.String() && s.Pacing != awsretry.ScaledPacing.String():
		return fmt.Errorf("pacing is %s; it must be cubic or scaled", clipped(s.Pacing))
	case s.Lease != 0 && (s.Lease < leastLease || s.Lease > longestLease):
		return fmt.Errorf("lease is %v; it must be %v to %v, or 0 for 400ms", s.Lease, leastLease, longestLease)
	case s.StoreLatency < 0 || s.StoreLatency > Duration(time.Second):
		return fmt.Errorf("store_latency is %v; it must be above 0 and at most 1s", s.StoreLatency)
	case s.Capacity < 0 || s.Capacity > maxCount:
		return fmt.Errorf("quota_capacity is %d; it must be 1 to %d, or 0 for 500", s.Capacity, maxCount)
	case !slices.Contains([]string{"", QuotaDocuments, QuotaSDK, Quota2026, QuotaNone}, s.Quota):
		return fmt.Errorf("quota is %s; it must be documents, sdk, 2026 or none", clipped(s.Quota))
	case s.Quota == QuotaNone && s.Capacity != 0:
		return fmt.Errorf("quota_capacity is %d; it must be left out if quota is none", s.Capacity)
	}
	switch s.Use {
	case UseNone, UseNaive, UseStandard, UseAdaptive, UseFleet, UseRevision2026, UseLegacy, UseDelivery, UseProfile:
	default:
		return fmt.Errorf(
			"use is %s; it must be none, naive, standard, adaptive, fleet, revision2026, legacy, delivery or profile",
			clipped(s.Use))
	}
	for _, field := range []struct {
		name  string
		given bool
		uses  string
	}{
		{"max_attempts", s.MaxAttempts != 0, "naive, standard, adaptive, fleet, revision2026, legacy, profile"},
		{"pause", s.Pause != 0, "naive"},
		{"policy", s.Policy != "", "delivery"},
		{"profile", s.Profile != "", "profile"},
		{"pacing", s.Pacing != "", "adaptive, fleet, profile"},
		{"lease", s.Lease != 0, "fleet"},
		{"store_latency", s.StoreLatency != 0, "fleet"},
		{"quota_capacity", s.Capacity != 0, transports},
		{"long_poll", s.LongPoll, transports},
		{"quota", s.Quota != "", transports},
		{"share_retry_after", s.ShareRetryAfter, transports},
		{"no_spread", s.NoSpread, transports},
		{"resume", s.Resume, transports},
	} {
		if field.given && !slices.Contains(strings.Split(field.uses, ", "), s.Use) {
			return fmt.Errorf("%s is for %s only, not for %s", field.name, field.uses, s.Use)
		}
	}
	return nil
}

// validateNew is validate for a setting with New.
func (s Setting) validateNew() error {
	if s.Name == "" {
		return fmt.Errorf("name is %s; it must not be empty where New is set", clipped(s.Name))
	}
	if s.Use != "" || s.MaxAttempts != 0 || s.Pause != 0 || s.Policy != "" || s.Profile != "" ||
		s.Pacing != "" || s.Lease != 0 || s.StoreLatency != 0 || s.Capacity != 0 || len(s.options()) > 0 {
		return fmt.Errorf("%s has New; its other fields, except for Name, must be left out", clipped(s.Name))
	}
	return nil
}
