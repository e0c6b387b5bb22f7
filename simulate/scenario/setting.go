package scenario

import (
	"errors"
	"fmt"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"time"

	"example.com/awsretry"
)

// The values of [Setting].Use.
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

// settingUses has all values of [Setting].Use.
var settingUses = []string{
	UseNone, UseNaive, UseStandard, UseAdaptive, UseFleet, UseRevision2026, UseLegacy, UseDelivery, UseProfile,
}

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

// transports are the settings that are a Transport with the AWS SDKs' rules.
const transports = "standard, adaptive, fleet, revision2026, profile"

// A Setting is one way to retry. In a file it may be its short form, as
// [ParseSetting] reads it. The tag for names the settings that have a field.
type Setting struct {
	Use  string `yaml:"use" json:"use"`
	Name string `yaml:"name,omitempty" json:"name"` // in the table and the picture; "": the short form

	// MaxAttempts includes the first attempt. 0 means the setting's default, and
	// 3 for naive.
	MaxAttempts int `yaml:"max_attempts,omitempty" json:"max_attempts,omitempty" for:"naive, legacy, TRANSPORTS"`

	// AttemptTimeout replaces Clients.AttemptTimeout. 0 means that of the clients.
	// It is an option of the short form.
	AttemptTimeout Duration `yaml:"attempt_timeout,omitempty" json:"attempt_timeout,omitempty" for:"naive, legacy, delivery, TRANSPORTS"`

	// Pause is the delay of naive. 0 means 100 ms.
	Pause Duration `yaml:"pause,omitempty" json:"pause,omitempty" for:"naive"`

	// Policy is a JSON file, aws-managed or customer-managed. "" means the
	// default policy.
	Policy string `yaml:"policy,omitempty" json:"policy,omitempty" for:"delivery"`

	// Profile is a profile's name. "" means the default of awsretry.Source.
	Profile string `yaml:"profile,omitempty" json:"profile,omitempty" for:"profile"`

	// Pacing is the arithmetic of the rate limiter: cubic or scaled. "" means
	// cubic. A profile must be in adaptive mode.
	Pacing string `yaml:"pacing,omitempty" json:"pacing,omitempty" for:"adaptive, fleet, profile"`

	// Lease is fleet.Config.Lease. 0 means 400 ms.
	Lease Duration `yaml:"lease,omitempty" json:"lease,omitempty" for:"fleet"`

	// StoreLatency is how long the store takes for a renewal. 0 means 1 ms.
	StoreLatency Duration `yaml:"store_latency,omitempty" json:"store_latency,omitempty" for:"fleet"`

	// Capacity is the number of tokens of the retry bucket, which the clients of
	// fleet share. 0 means 500.
	Capacity int `yaml:"quota_capacity,omitempty" json:"quota_capacity,omitempty" for:"TRANSPORTS"`

	// Quota is what retries cost: documents (of the AWS SDK for Kotlin), sdk (of
	// the AWS SDKs for Go and Python), 2026, or none for unlimited retries. ""
	// means the revision's quota.
	Quota string `yaml:"quota,omitempty" json:"quota,omitempty" for:"TRANSPORTS"`

	// Share is a Quota.Share of 0.2. It is an option of the short form.
	Share bool `yaml:"share,omitempty" json:"share,omitempty" for:"standard, adaptive, revision2026, profile"`

	// Limits is RateLimit.Limits: awsretry.ReadLimits. It is an option of the
	// short form.
	Limits bool `yaml:"limits,omitempty" json:"limits,omitempty" for:"adaptive, fleet, profile"`

	// LongPoll makes Transport.LongPoll report true for every request. NoSpread
	// is a Transport.RetryAfterSpread of next to nothing. The others are the fields of
	// those names. Each is an option of the short form.
	LongPoll        bool `yaml:"long_poll,omitempty" json:"long_poll,omitempty" for:"TRANSPORTS"`
	ShareRetryAfter bool `yaml:"share_retry_after,omitempty" json:"share_retry_after,omitempty" for:"TRANSPORTS"`
	NoSpread        bool `yaml:"no_spread,omitempty" json:"no_spread,omitempty" for:"TRANSPORTS"`
	Resume          bool `yaml:"resume,omitempty" json:"resume,omitempty" for:"TRANSPORTS"`

	// New makes a client's RoundTripper over base, for programs that simulate
	// retries of another kind. It is called in virtual time, once for each
	// client. If it is set, Name must be set and the other fields must not be.
	//
	// The RoundTripper must pass each request's context to base, send one attempt
	// of a call after another, and wait only for timers and for other calls of
	// the run. base applies Clients.AttemptTimeout: after that time it returns an
	// error whose Timeout method reports true, as an http.Transport with a
	// ResponseHeaderTimeout does.
	New func(base http.RoundTripper) http.RoundTripper `yaml:"-" json:"-"`
}

// eachSet calls f for every field that is set, except Use, Name and New, with its
// name in a file and the settings that have it.
func (s Setting) eachSet(f func(name, uses string, value reflect.Value)) {
	v := reflect.ValueOf(s)
	for i := range v.NumField() {
		tag := v.Type().Field(i).Tag
		if uses := tag.Get("for"); uses != "" && !v.Field(i).IsZero() {
			name, _, _ := strings.Cut(tag.Get("yaml"), ",")
			f(name, strings.ReplaceAll(uses, "TRANSPORTS", transports), v.Field(i))
		}
	}
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

// ParseSetting parses the short form of a setting: what it uses and, for adaptive,
// fleet, delivery and profile, an equals sign and a value. Examples are standard,
// adaptive=scaled, delivery=policy.json and profile=ci. After standard, adaptive,
// fleet and revision2026, +quota=NAME, +attempt_timeout=TIME and the names of the
// fields that are bool may follow, as in standard+share.
func ParseSetting(text string) (Setting, error) {
	s, err := parseSetting(text)
	if err != nil {
		return Setting{}, fmt.Errorf("simulate: %w", err)
	}
	return s, nil
}

func parseSetting(text string) (Setting, error) {
	s, err := shortForm(text)
	if err == nil {
		err = s.validate()
	}
	if err != nil {
		return Setting{}, fmt.Errorf("setting %s: %w", clipped(text), err)
	}
	return s, nil
}

// shortForm is parseSetting without the check of what is set.
func shortForm(text string) (Setting, error) {
	short, options := text, []string(nil)
	use := text[:strings.IndexAny(text+"=", "=+")]
	if slices.Contains([]string{UseStandard, UseAdaptive, UseFleet, UseRevision2026}, use) {
		parts := strings.Split(text, "+") // the name of a profile or a policy may have a plus sign
		short, options = parts[0], parts[1:]
	} else if slices.Contains(settingUses, use) && strings.HasPrefix(text[len(use):], "+") {
		return Setting{}, fmt.Errorf("%s has no options; only standard, adaptive, fleet and revision2026 have some", use)
	}
	use, which, given := strings.Cut(short, "=")
	s := Setting{Use: use}
	kinds := map[string]*string{
		UseAdaptive: &s.Pacing, UseFleet: &s.Pacing, UseDelivery: &s.Policy, UseProfile: &s.Profile,
	}
	switch value := kinds[use]; {
	case given && value == nil:
		return s, errors.New("only adaptive, fleet, delivery and profile take a value")
	case given && which == "":
		return s, errors.New("nothing follows the =; omit it for the default")
	case given:
		*value = which
	}
	for _, option := range options {
		name, value, given := strings.Cut(option, "=")
		field, known := fieldByName(reflect.ValueOf(&s).Elem(), name)
		switch {
		case name == "quota" && value != "":
			s.Quota = value
		case name == "attempt_timeout" && value != "":
			if err := s.AttemptTimeout.UnmarshalText([]byte(value)); err != nil {
				return s, fmt.Errorf("attempt_timeout is %s; it must be %s", clipped(value), allowedDuration)
			}
		case known && !given && field.Kind() == reflect.Bool:
			field.SetBool(true)
		default:
			return s, fmt.Errorf("the option is %s; it must be share, limits, long_poll, share_retry_after, no_spread, "+
				"resume, quota=NAME or attempt_timeout=TIME", clipped(option))
		}
	}
	return s, nil
}

// Label returns the setting's name in the table and the picture.
func (s Setting) Label() string {
	if s.Name != "" {
		return s.Name
	}
	label := s.Use
	for _, which := range []string{s.Policy, s.Profile} {
		if which != "" {
			label += "=" + which
		}
	}
	switch {
	case s.Pacing == "":
	case s.Use == UseProfile:
		label += ", " + s.Pacing
	default:
		label += "=" + s.Pacing
	}
	s.eachSet(func(name, _ string, value reflect.Value) {
		if value.Kind() == reflect.Bool {
			label += ", " + name
		}
	})
	if s.Quota != "" {
		label += ", quota=" + s.Quota
	}
	if s.AttemptTimeout != 0 {
		label += ", attempt_timeout=" + s.AttemptTimeout.String()
	}
	return label
}

// validate returns an error for the first field that makes no sense.
func (s Setting) validate() error {
	var c checker
	oneOf := func(field, value string, allowed ...string) {
		last := len(allowed) - 1
		c.check(slices.Contains(allowed, value), field, clipped(value), "%s or %s",
			strings.Join(allowed[:last], ", "), allowed[last])
	}
	c.check(len(s.Name) <= maxNameBytes, "name", clipped(s.Name), "of at most %d bytes", maxNameBytes)
	c.check(printable(s.Label()), "name", clipped(s.Label()), "printable")
	if s.New != nil {
		s.New = nil
		c.check(s.Name != "", "name", clipped(s.Name), "set where New is")
		c.check(reflect.DeepEqual(s, Setting{Name: s.Name}), "New", "set", "the only field but Name")
		return c.first()
	}
	oneOf("use", s.Use, settingUses...)
	c.whole("max_attempts", s.MaxAttempts, 0, maxAttempts)
	c.timeout("attempt_timeout", s.AttemptTimeout, "the clients'")
	c.within("pause", s.Pause, 0, Duration(time.Hour))
	if s.Pacing != "" {
		oneOf("pacing", s.Pacing, awsretry.CubicPacing.String(), awsretry.ScaledPacing.String())
	}
	c.check(s.Lease == 0 || s.Lease >= leastLease && s.Lease <= longestLease, "lease", s.Lease,
		"%v to %v, or 0 for 400ms", leastLease, longestLease)
	c.within("store_latency", s.StoreLatency, 0, Duration(time.Second))
	c.whole("quota_capacity", s.Capacity, 0, maxCount)
	if s.Quota != "" {
		oneOf("quota", s.Quota, QuotaDocuments, QuotaSDK, Quota2026, QuotaNone)
	}
	c.check(s.Quota != QuotaNone || !s.Share, "share", s.Share, "left out if quota is none")
	c.check(s.Quota != QuotaNone || s.Capacity == 0, "quota_capacity", s.Capacity, "left out if quota is none")
	s.eachSet(func(name, uses string, _ reflect.Value) {
		c.check(slices.Contains(strings.Split(uses, ", "), s.Use), name, "set",
			"left out: it is for %s only, not for %s", uses, s.Use)
	})
	return c.first()
}

// first returns the first fault, or nil.
func (c *checker) first() error {
	if len(c.faults) == 0 {
		return nil
	}
	return errors.New(c.faults[0].text)
}
