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

// settingUses are the values of [Setting].Use.
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

	// MaxAttempts includes the first attempt. 0 means the setting's own, and 3
	// for naive.
	MaxAttempts int `yaml:"max_attempts,omitempty" json:"max_attempts,omitempty" for:"naive, legacy, TRANSPORTS"`

	// Pause is the delay of naive. 0 means 100 ms.
	Pause Duration `yaml:"pause,omitempty" json:"pause,omitempty" for:"naive"`

	// Policy is a JSON file, aws-managed or customer-managed. "" means the
	// default policy.
	Policy string `yaml:"policy,omitempty" json:"policy,omitempty" for:"delivery"`

	// Profile is a profile's name. "" means AWS_PROFILE, or else default.
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

	// Quota is what retries cost: documents (of the AWS SDK for Kotlin), sdk (as
	// the AWS SDKs for Go and Python have it), 2026, or none for retries without
	// limit. "" means the revision's.
	Quota string `yaml:"quota,omitempty" json:"quota,omitempty" for:"TRANSPORTS"`

	// Share is a Quota.Share of 0.2. It is an option of the short form.
	Share bool `yaml:"share,omitempty" json:"share,omitempty" for:"standard, adaptive, revision2026, profile"`

	// Limits is RateLimit.Limits: awsretry.ReadLimits. It is an option of the
	// short form.
	Limits bool `yaml:"limits,omitempty" json:"limits,omitempty" for:"adaptive, fleet, profile"`

	// LongPoll makes Transport.LongPoll report true for every request. NoSpread
	// is a negative Transport.RetryAfterSpread. The others are the fields of
	// those names. Each is an option of the short form.
	LongPoll        bool `yaml:"long_poll,omitempty" json:"long_poll,omitempty" for:"TRANSPORTS"`
	ShareRetryAfter bool `yaml:"share_retry_after,omitempty" json:"share_retry_after,omitempty" for:"TRANSPORTS"`
	NoSpread        bool `yaml:"no_spread,omitempty" json:"no_spread,omitempty" for:"TRANSPORTS"`
	Resume          bool `yaml:"resume,omitempty" json:"resume,omitempty" for:"TRANSPORTS"`

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

// eachSet calls f for every field that is set, except for Use, Name and New,
// with its name in a file and the settings that have it.
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

// SettingNames returns the short forms of the settings, without options. delivery=
// and profile= need a name after them.
func SettingNames() []string {
	return []string{
		UseNone, UseNaive, UseStandard, UseAdaptive, UseAdaptive + "=scaled", UseFleet, UseFleet + "=scaled",
		UseRevision2026, UseLegacy, UseDelivery, UseDelivery + "=" + AWSManaged, UseDelivery + "=" + CustomerManaged,
		UseDelivery + "=", UseProfile, UseProfile + "=",
	}
}

// SettingOptions returns what may follow standard, adaptive, fleet and
// revision2026 in a short form.
func SettingOptions() []string {
	return []string{
		"+share", "+limits", "+long_poll", "+share_retry_after", "+no_spread", "+resume",
		"+quota=" + QuotaDocuments, "+quota=" + QuotaSDK, "+quota=" + Quota2026, "+quota=" + QuotaNone,
	}
}

// ParseSetting parses the short form of a setting: what it uses and, for
// adaptive, fleet, delivery and profile, an equals sign and which one. Examples
// are standard, adaptive=scaled, delivery=policy.json and profile=ci. For
// standard, adaptive, fleet and revision2026, options may follow, each after a
// plus sign: share, limits, long_poll, share_retry_after, no_spread, resume and
// quota=NAME.
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
	kinds := map[string]*string{
		UseAdaptive: &s.Pacing, UseFleet: &s.Pacing, UseDelivery: &s.Policy, UseProfile: &s.Profile,
	}
	switch value := kinds[use]; {
	case given && value == nil:
		return Setting{}, fmt.Errorf("setting %s: only adaptive, fleet, delivery and profile take a value",
			clipped(text))
	case given && which == "":
		return Setting{}, fmt.Errorf("setting %s: nothing follows the =; omit it for the default", clipped(text))
	case given:
		*value = which
	}
	for _, option := range options {
		if err := s.setOption(option); err != nil {
			return Setting{}, fmt.Errorf("setting %s: %w", clipped(text), err)
		}
	}
	if err := s.validate(); err != nil {
		return Setting{}, fmt.Errorf("setting %s: %w", clipped(text), err)
	}
	return s, nil
}

// cutOptions splits the short form of a setting into what it is without options
// and the options. A profile or a policy may have a plus sign in its name.
func cutOptions(text string) (short string, options []string) {
	use, _, _ := strings.Cut(text, "=")
	use, _, _ = strings.Cut(use, "+")
	if !slices.Contains([]string{UseStandard, UseAdaptive, UseFleet, UseRevision2026}, use) {
		return text, nil
	}
	parts := strings.Split(text, "+")
	return parts[0], parts[1:]
}

// setOption sets what an option of the short form asks for.
func (s *Setting) setOption(text string) error {
	if quota, ok := strings.CutPrefix(text, "quota="); ok {
		if quota == "" {
			return errors.New("nothing follows quota=; it must be documents, sdk, 2026 or none")
		}
		s.Quota = quota
		return nil
	}
	if field, known := fieldByName(reflect.ValueOf(s).Elem(), text); known && field.Kind() == reflect.Bool {
		field.SetBool(true)
		return nil
	}
	return fmt.Errorf("the option is %s; it must be share, limits, long_poll, share_retry_after, no_spread, resume or "+
		"quota=NAME",
		clipped(text))
}

// options returns the options that are set, as the short form has them.
func (s Setting) options() []string {
	var set []string
	s.eachSet(func(name, _ string, value reflect.Value) {
		if value.Kind() == reflect.Bool {
			set = append(set, name)
		}
	})
	if s.Quota != "" {
		set = append(set, "quota="+s.Quota)
	}
	return set
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
	case s.Quota == QuotaNone && s.Share:
		return errors.New("share is true; it must be left out if quota is none")
	case s.Quota == QuotaNone && s.Capacity != 0:
		return fmt.Errorf("quota_capacity is %d; it must be left out if quota is none", s.Capacity)
	}
	if !slices.Contains(settingUses, s.Use) {
		last := len(settingUses) - 1
		return fmt.Errorf("use is %s; it must be %s or %s", clipped(s.Use), strings.Join(settingUses[:last], ", "),
			settingUses[last])
	}
	var err error
	s.eachSet(func(name, uses string, _ reflect.Value) {
		if err == nil && !slices.Contains(strings.Split(uses, ", "), s.Use) {
			err = fmt.Errorf("%s is for %s only, not for %s", name, uses, s.Use)
		}
	})
	return err
}

// validateNew is validate for a setting with New.
func (s Setting) validateNew() error {
	if s.Name == "" {
		return fmt.Errorf("name is %s; it must not be empty where New is set", clipped(s.Name))
	}
	other := s.Use != ""
	s.eachSet(func(string, string, reflect.Value) { other = true })
	if other {
		return fmt.Errorf("%s has New; its other fields, except for Name, must be left out", clipped(s.Name))
	}
	return nil
}
