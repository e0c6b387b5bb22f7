package main

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"example.com/awsretry"
	"github.com/spf13/pflag"
)

// settingsFlags are the flags that say how requests are retried. What they leave open comes from the environment and the
// shared config file.
type settingsFlags struct {
	profile        word
	mode           choice
	revision       choice
	maxAttempts    number
	attemptTimeout period
	baseDelay      period
	maxDelay       period
	jitter         choice
	maxRetryAfter  retryAfter
	quota          number
	partition      word
	idempotentOnly bool
	failFast       bool
	sdkHeaders     bool
}

const (
	profileUsage = "the profile of the shared config file, in place of AWS_PROFILE"

	noQuota         = -1
	defaultMaxDelay = 20 * time.Second // of awsretry.Exponential
)

func (s *settingsFlags) register(flags *pflag.FlagSet) {
	s.mode.allowed = []string{"standard", "adaptive", "legacy"}
	s.revision.allowed = []string{"classic", "2026"}
	s.jitter.allowed = []string{"full", "equal", "none"}
	s.maxAttempts = number{least: 1, note: " (1: never retry)"}
	s.quota = number{least: 1, off: noQuota, note: ", or -1 for no bucket"}

	s.profile.kind, s.partition.kind = "PROFILE", "NAME"
	flags.Var(&s.profile, "profile", profileUsage)
	flags.Var(&s.mode, "mode", "retry mode, in place of AWS_RETRY_MODE")
	flags.Var(&s.maxAttempts, "max-attempts", "attempts in all, in place of AWS_MAX_ATTEMPTS (1: never retry)")
	flags.Var(&s.revision, "revision", "the documents' rules, or those that the AWS SDKs announced for 2026")
	flags.Var(&s.attemptTimeout, "attempt-timeout", "give up an attempt after this time, and retry it (default none)")
	flags.Var(&s.baseDelay, "base-delay", "the first pause, which doubles from retry to retry (default the mode's)")
	flags.Var(&s.maxDelay, "max-delay", "the longest pause that --base-delay leads to (default 20s)")
	flags.Var(&s.jitter, "jitter", "how much of a pause from --base-delay is random (default full)")
	flags.Var(&s.maxRetryAfter, "max-retry-after", "stop when Retry-After asks for more than this, or ignore the header (default 1m)")
	flags.Var(&s.quota, "quota", "tokens in the full retry token bucket (-1: no bucket) (default 500)")
	flags.Var(&s.partition, "partition", "the partition whose buckets are used (default the URL's host)")
	flags.BoolVar(&s.idempotentOnly, "idempotent-only", false, "unless throttled, retry only what may safely be sent twice")
	flags.BoolVar(&s.failFast, "fail-fast", false, "in adaptive mode, stop instead of waiting for the rate limiter")
	flags.BoolVar(&s.sdkHeaders, "sdk-headers", false, "send amz-sdk-request and amz-sdk-invocation-id, as the AWS SDKs do")
}

// source is where settings come from: the flags, which go before everything else, the environment, and the files.
func (s *settingsFlags) source(p process) awsretry.Source {
	return awsretry.Source{Profile: s.profile.value, Getenv: func(name string) string {
		switch {
		case name == "AWS_RETRY_MODE" && s.mode.value != "":
			return s.mode.value
		case name == "AWS_MAX_ATTEMPTS" && s.maxAttempts.value != 0:
			return s.maxAttempts.String()
		case name == "AWS_NEW_RETRIES_2026" && s.revision.value != "":
			return strconv.FormatBool(s.revision.value == "2026")
		}
		return p.getenv(name)
	}}
}

// transport is what the settings add up to. Its errors are of usage.
func (s *settingsFlags) transport(p process) (*awsretry.Transport, awsretry.Settings, error) {
	source := s.source(p)
	settings, err := source.Resolve()
	if err != nil {
		return nil, settings, namesFlag(err, s.profile.value)
	}
	if err := s.suit(settings); err != nil {
		return nil, settings, err
	}
	t, err := awsretry.Load(source)
	if err != nil {
		return nil, settings, err
	}
	if t.Backoff, err = s.backoff(); err != nil {
		return nil, settings, err
	}
	t.AttemptTimeout = time.Duration(s.attemptTimeout)
	t.MaxRetryAfter = time.Duration(s.maxRetryAfter)
	t.Quota.Capacity = s.quota.value
	t.RateLimit.FailFast = s.failFast
	t.SDKHeaders = s.sdkHeaders
	if name := s.partition.value; name != "" {
		t.Partition = func(*http.Request) string { return name }
	}
	if s.idempotentOnly {
		t.Policy = awsretry.IdempotentOnly(nil)
	}
	return t, settings, t.Validate()
}

// suit reports a flag that has no meaning in the mode.
func (s *settingsFlags) suit(settings awsretry.Settings) error {
	from := settings.ModeFrom
	switch {
	case s.mode.value != "":
		from = "flag --mode"
	case from == "default":
		from = "the default"
	}
	legacy := settings.Mode == awsretry.Legacy
	switch {
	case legacy && s.quota.value > 0:
		return fmt.Errorf("--quota is %d; it must be left out, or -1, in legacy mode (%s), which has no retry token bucket",
			s.quota.value, from)
	case legacy && s.revision.value == "2026":
		return fmt.Errorf("--revision is 2026; it must be left out, or classic, in legacy mode (%s), which has no revisions", from)
	case s.failFast && settings.Mode != awsretry.Adaptive:
		return fmt.Errorf("--fail-fast is for adaptive mode only, and the mode is %s (%s): no other has a rate limiter to wait for",
			settings.Mode, from)
	}
	return nil
}

// namesFlag returns err, from a Source, with the flag in place of the field.
func namesFlag(err error, profile string) error {
	if profile == "" {
		return err
	}
	return &endedError{errors.New(strings.Replace(err.Error(), "Source.Profile is", "--profile is", 1)), err}
}

// missingFiles returns a warning for each variable that names a file which does
// not exist. Resolve reads such a file as an empty one.
func missingFiles(getenv func(string) string) (warnings []string) {
	config, credentials := awsretry.Source{Getenv: getenv}.Files()
	for _, file := range []struct{ variable, path string }{
		{"AWS_CONFIG_FILE", config},
		{"AWS_SHARED_CREDENTIALS_FILE", credentials},
	} {
		if getenv(file.variable) == "" {
			continue
		}
		if _, err := os.Stat(file.path); errors.Is(err, fs.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) {
			warnings = append(warnings, fmt.Sprintf("environment %s is %q; there is no such file, so nothing is read from it",
				file.variable, file.path))
		}
	}
	return warnings
}

// backoff is nil where the flags leave it to the mode.
func (s *settingsFlags) backoff() (awsretry.Backoff, error) {
	if s.baseDelay == 0 {
		if s.maxDelay != 0 || s.jitter.value != "" {
			return nil, errors.New("--max-delay and --jitter say more about --base-delay, which is missing")
		}
		return nil, nil
	}
	e := awsretry.Exponential{Initial: time.Duration(s.baseDelay), Max: time.Duration(s.maxDelay)}
	if e.Max == 0 {
		e.Max = defaultMaxDelay
	}
	if e.Initial > e.Max {
		return nil, fmt.Errorf("--base-delay is %v; it must be at most --max-delay, %v", e.Initial, e.Max)
	}
	switch s.jitter.value {
	case "equal":
		e.Jitter = awsretry.EqualJitter
	case "none":
		e.Jitter = awsretry.NoJitter
	}
	return e, nil
}
