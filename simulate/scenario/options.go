package scenario

import (
	"errors"
	"fmt"
	"slices"
	"strings"
)

// transports are the settings that are a Transport with the AWS SDKs' rules.
const transports = "standard, adaptive, fleet, revision2026, profile"

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

// switches are the options that have no value.
func (s *Setting) switches() []switched {
	return []switched{
		{"long_poll", &s.LongPoll},
		{"share_retry_after", &s.ShareRetryAfter},
		{"no_spread", &s.NoSpread},
		{"resume", &s.Resume},
	}
}

type switched struct {
	name string
	on   *bool
}

// options returns the options that are set, as in the short form.
func (s Setting) options() []string {
	var set []string
	for _, o := range s.switches() {
		if *o.on {
			set = append(set, o.name)
		}
	}
	if s.Quota != "" {
		set = append(set, "quota="+s.Quota)
	}
	return set
}

func (s *Setting) setOptions(options []string) error {
	for _, text := range options {
		if err := s.setOption(text); err != nil {
			return err
		}
	}
	return nil
}

func (s *Setting) setOption(text string) error {
	if quota, ok := strings.CutPrefix(text, "quota="); ok {
		if quota == "" {
			return errors.New("nothing follows quota=; it must be documents, sdk, 2026 or none")
		}
		s.Quota = quota
		return nil
	}
	for _, o := range s.switches() {
		if o.name == text {
			*o.on = true
			return nil
		}
	}
	return fmt.Errorf("the option is %s; it must be long_poll, share_retry_after, no_spread, resume or quota=NAME",
		clipped(text))
}
