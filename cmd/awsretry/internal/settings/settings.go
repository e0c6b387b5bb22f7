// Package settings makes a Transport from the retry flags, the environment, and the
// shared AWS config file.
package settings

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/spf13/pflag"

	"example.com/awsretry"
	"example.com/awsretry/cmd/internal/cli"
)

// Flags configure how requests are retried. The environment and the shared config
// file have the settings of flags that are not given.
type Flags struct {
	profile        cli.Word
	mode           cli.Choice
	revision       cli.Choice
	maxAttempts    cli.Number
	attemptTimeout cli.Period
	baseDelay      cli.Period
	maxDelay       cli.Period
	jitter         cli.Choice
	maxRetryAfter  retryAfter
	idempotentOnly bool
	pacing         cli.Choice
	sdkHeaders     bool
}

const defaultMaxDelay = 20 * time.Second // of awsretry.Exponential

// RegisterProfile adds the flag --profile to set.
func RegisterProfile(set *pflag.FlagSet, profile *cli.Word) {
	profile.Kind = "PROFILE"
	set.Var(profile, "profile", "the profile of the shared config file, in place of AWS_PROFILE")
}

// Register adds the flags to set.
func (f *Flags) Register(set *pflag.FlagSet) {
	f.mode.Allowed = []string{"standard", "adaptive", "legacy"}
	f.revision.Allowed = []string{"classic", "2026"}
	f.pacing.Allowed = []string{awsretry.CubicPacing.String(), awsretry.ScaledPacing.String()}
	f.jitter.Allowed = []string{"full", "equal", "none"}
	f.maxAttempts = cli.Number{Least: 1, Note: " (1: never retry)"}

	RegisterProfile(set, &f.profile)
	set.Var(&f.mode, "mode", "retry mode, in place of AWS_RETRY_MODE")
	set.Var(&f.maxAttempts, "max-attempts", "attempts in all, in place of AWS_MAX_ATTEMPTS (1: never retry)")
	set.Var(&f.revision, "revision", "the rules of the AWS SDKs before 2026, or since")
	set.Var(&f.attemptTimeout, "attempt-timeout", "give up an attempt after this time, and retry it (default none)")
	set.Var(&f.baseDelay, "base-delay", "the first delay, which doubles with each retry (default the mode's)")
	set.Var(&f.maxDelay, "max-delay", "the longest delay that --base-delay leads to (default 20s)")
	set.Var(&f.jitter, "jitter", "how much of a delay from --base-delay is random (default full)")
	set.Var(&f.maxRetryAfter, "max-retry-after",
		"stop when Retry-After asks for more than this, or ignore the header (default 1m)")
	set.BoolVar(&f.idempotentOnly, "idempotent-only", false,
		"unless throttled, retry only what may safely be sent twice")
	set.Var(&f.pacing, "pacing", "in adaptive mode, the rate limiter's arithmetic (default cubic, the AWS SDKs')")
	set.BoolVar(&f.sdkHeaders, "sdk-headers", false,
		"send amz-sdk-request and amz-sdk-invocation-id, as the AWS SDKs do")
}

// Transport returns the Transport of the settings, and where they are from. Its
// errors are usage errors, unless they are from the environment or a file.
func (f *Flags) Transport(getenv func(string) string) (*awsretry.Transport, awsretry.Settings, error) {
	source := f.source(getenv)
	settings, err := source.Resolve()
	if err != nil {
		return nil, settings, cli.Failed(err)
	}
	if err := f.checkMode(settings); err != nil {
		return nil, settings, err
	}
	t, err := awsretry.Load(source)
	if err != nil {
		return nil, settings, cli.Failed(err)
	}
	if t.Backoff, err = f.backoff(); err != nil {
		return nil, settings, err
	}
	t.AttemptTimeout = time.Duration(f.attemptTimeout)
	t.MaxRetryAfter = time.Duration(f.maxRetryAfter)
	if f.pacing.Value == awsretry.ScaledPacing.String() {
		t.RateLimit.Pacing = awsretry.ScaledPacing
	}
	t.SDKHeaders = f.sdkHeaders
	if f.idempotentOnly {
		t.Policy = awsretry.IdempotentOnly(nil)
	}
	return t, settings, t.Validate()
}

// source returns the source of the settings, in which a flag replaces its
// environment variable.
func (f *Flags) source(getenv func(string) string) awsretry.Source {
	return awsretry.Source{Profile: f.profile.Value, Getenv: func(name string) string {
		switch {
		case name == "AWS_RETRY_MODE" && f.mode.Value != "":
			return f.mode.Value
		case name == "AWS_MAX_ATTEMPTS" && f.maxAttempts.Value != 0:
			return f.maxAttempts.String()
		case name == "AWS_NEW_RETRIES_2026" && f.revision.Value != "":
			return strconv.FormatBool(f.revision.Value == "2026")
		}
		return getenv(name)
	}}
}

// checkMode returns an error for a flag that has no effect in the mode.
func (f *Flags) checkMode(settings awsretry.Settings) error {
	from := settings.ModeFrom
	switch {
	case f.mode.Value != "":
		from = "flag --mode"
	case from == "default":
		from = "the default"
	}
	switch {
	case settings.Mode == awsretry.Legacy && f.revision.Value == "2026":
		return fmt.Errorf(
			"--revision is 2026; it must be left out, or classic, in legacy mode (%s), which has no revisions",
			from)
	case f.pacing.Value != "" && settings.Mode != awsretry.Adaptive:
		return fmt.Errorf(
			"--pacing is for adaptive mode only, and the mode is %s (%s): no other mode has a rate limiter",
			settings.Mode, from)
	}
	return nil
}

// backoff returns the backoff of the flags, or nil for the mode's default.
func (f *Flags) backoff() (awsretry.Backoff, error) {
	if f.baseDelay == 0 {
		if f.maxDelay != 0 || f.jitter.Value != "" {
			return nil, errors.New("--max-delay and --jitter go with --base-delay, which is missing")
		}
		return nil, nil
	}
	e := awsretry.Exponential{Initial: time.Duration(f.baseDelay), Max: time.Duration(f.maxDelay)}
	if e.Max == 0 {
		e.Max = defaultMaxDelay
	}
	if e.Initial > e.Max {
		return nil, fmt.Errorf("--base-delay is %v; it must be at most --max-delay, %v", e.Initial, e.Max)
	}
	switch f.jitter.Value {
	case "equal":
		e.Jitter = awsretry.EqualJitter
	case "none":
		e.Jitter = awsretry.NoJitter
	}
	return e, nil
}
