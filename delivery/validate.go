package delivery

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"
	"unicode"
)

// The limits of Amazon SNS, "Message delivery retries".
const (
	maxDelayTarget = 3600 // seconds
	maxNumRetries  = 100
	maxTotal       = 3600 * time.Second // "a hard limit and cannot be increased"
)

// What is allowed for each attribute, for errors.
const (
	limitMinDelayTarget  = "whole seconds, 1 to maxDelayTarget"
	limitMaxDelayTarget  = "whole seconds, minDelayTarget to 3600"
	limitNumRetries      = "a whole number, 0 to 100"
	limitNumPhaseRetries = "a whole number, 0 to numRetries together with the other phases"
	limitMaxReceives     = "a whole number, 1 to 2147483647"
)

// contentTypes returns what Amazon SNS, "Message delivery retries", allows as
// headerContentType.
func contentTypes(raw bool) []string {
	if !raw {
		return []string{"application/json", "text/plain"}
	}
	return []string{
		"text/css", "text/csv", "text/html", "text/plain", "text/xml", "application/atom+xml", "application/json",
		"application/octet-stream", "application/soap+xml", "application/x-www-form-urlencoded",
		"application/xhtml+xml", "application/xml",
	}
}

// ValidateWrapped returns an error that names each attribute that is out of its
// limits, as in the JSON, with its value and the limit. It is for a
// subscription without raw message delivery, whose messages Amazon SNS wraps in
// JSON: headerContentType may be application/json or text/plain. Parameters, as
// in text/plain; charset=UTF-8, are allowed.
//
// A nil policy is the default one, which is valid.
func (p *Policy) ValidateWrapped() error { return named("delivery: ", p.faults(false)...) }

// ValidateRaw is like [Policy.ValidateWrapped] for a subscription with raw
// message delivery: headerContentType may also be text/css, text/csv,
// text/html, text/xml, application/atom+xml, application/octet-stream,
// application/soap+xml, application/x-www-form-urlencoded,
// application/xhtml+xml or application/xml.
func (p *Policy) ValidateRaw() error { return named("delivery: ", p.faults(true)...) }

// Validate is like [Policy.ValidateWrapped] for a topic's policy.
func (t *TopicPolicy) Validate() error {
	if t == nil || t.HTTP == nil {
		return nil
	}
	h := t.HTTP
	return named("delivery: ", append(h.DefaultHealthyRetryPolicy.limits("http.defaultHealthyRetryPolicy"),
		h.DefaultThrottlePolicy.limits("http.defaultThrottlePolicy"),
		h.DefaultRequestPolicy.contentType("http.defaultRequestPolicy", false))...)
}

// faults returns the errors of ValidateRaw or ValidateWrapped. Some may be nil.
func (p *Policy) faults(raw bool) []error {
	if p == nil {
		return nil
	}
	return append(append(p.limits(), p.scheduleLimits()), p.RequestPolicy.contentType("requestPolicy", raw))
}

// limits checks everything but the content type.
func (p *Policy) limits() []error {
	return append(p.HealthyRetryPolicy.limits("healthyRetryPolicy"), p.ThrottlePolicy.limits("throttlePolicy"))
}

// maxSchedule is how many delays a Policy.Schedule may have.
const maxSchedule = 1000

func (p *Policy) scheduleLimits() error {
	switch {
	case p.Schedule == nil:
		return nil
	case p.HealthyRetryPolicy != nil:
		return errors.New("schedule and healthyRetryPolicy are set; only one of them may be")
	case len(p.Schedule) > maxSchedule:
		return outOfLimits("schedule", fmt.Sprintf("%d delays", len(p.Schedule)), fmt.Sprintf("%d at most", maxSchedule))
	}
	for _, delay := range p.Schedule {
		if delay < 0 || delay > maxScheduled {
			return outOfLimits("a delay of schedule", delay, fmt.Sprintf("0 to %v", maxScheduled))
		}
	}
	return nil
}

// maxScheduled is the longest delay of a Policy.Schedule.
const maxScheduled = 366 * 24 * time.Hour

func (r *RetryPolicy) limits(path string) []error {
	if r == nil {
		return nil
	}
	var errs []error
	refuse := func(attribute string, value any, limit string) {
		errs = append(errs, outOfLimits(path+"."+attribute, value, limit))
	}
	f := r.withDefaults()

	lo, hi := *f.MinDelayTarget, *f.MaxDelayTarget
	if lo < 1 || lo > maxDelayTarget {
		refuse("minDelayTarget", lo, limitMinDelayTarget+fmt.Sprintf(", %d at most", maxDelayTarget))
	}
	if hi < 1 || hi > maxDelayTarget {
		refuse("maxDelayTarget", hi, limitMaxDelayTarget)
	}
	switch {
	case lo <= hi || errs != nil:
	case r.MinDelayTarget != nil:
		refuse("minDelayTarget", lo, fmt.Sprintf("%s (%d)", limitMinDelayTarget, hi))
	default: // name the attribute that was given
		refuse("maxDelayTarget", hi, fmt.Sprintf("whole seconds, minDelayTarget (%d, its default) to 3600", lo))
	}

	rest := *f.NumRetries
	if rest < 0 || rest > maxNumRetries && !r.fixed {
		refuse("numRetries", rest, limitNumRetries)
		rest = max(rest, 0)
	}
	for _, phase := range []struct {
		attribute string
		retries   int
	}{
		{"numNoDelayRetries", *f.NumNoDelayRetries},
		{"numMinDelayRetries", *f.NumMinDelayRetries},
		{"numMaxDelayRetries", *f.NumMaxDelayRetries},
	} {
		if phase.retries < 0 || phase.retries > rest {
			refuse(phase.attribute, phase.retries, fmt.Sprintf("%s (%d)", limitNumPhaseRetries, *f.NumRetries))
		}
		rest = max(rest-max(phase.retries, 0), 0)
	}

	if backoffFunctions[f.BackoffFunction] == nil {
		refuse("backoffFunction", quote(string(f.BackoffFunction)), limitBackoffFunction)
	}

	if errs == nil && !r.fixed {
		s := f.schedule()
		// Each delay is rounded to a nanosecond, so a sum of exactly 3,600 s
		// may come out some nanoseconds longer.
		if total := s.total().Round(time.Microsecond); total > maxTotal {
			sum := fmt.Sprintf("%v s", total.Seconds())
			errs = append(errs, outOfLimits(path+": the sum of the pauses", sum, "at most 3600 s"))
		}
	}
	return errs
}

func (t *ThrottlePolicy) limits(path string) error {
	if t == nil || t.MaxReceivesPerSecond == nil || *t.MaxReceivesPerSecond >= 1 && *t.MaxReceivesPerSecond <= math.MaxInt32 {
		return nil
	}
	return outOfLimits(path+".maxReceivesPerSecond", *t.MaxReceivesPerSecond, limitMaxReceives)
}

func (r *RequestPolicy) contentType(path string, raw bool) error {
	if r == nil || r.HeaderContentType == "" {
		return nil
	}
	name, parameters, _ := strings.Cut(r.HeaderContentType, ";")
	name = strings.TrimRight(name, " \t")
	switch {
	case !slices.Contains(contentTypes(raw), name):
	case strings.ContainsFunc(parameters, unicode.IsControl): // invalid in a header
		return outOfLimits(path+".headerContentType", quote(r.HeaderContentType),
			name+" without control characters after it")
	default:
		return nil
	}
	limit := "one of " + strings.Join(contentTypes(raw), ", ")
	if !raw && slices.Contains(contentTypes(true), name) {
		limit += " where raw message delivery is off"
	}
	return outOfLimits(path+".headerContentType", quote(r.HeaderContentType), limit)
}

func outOfLimits(attribute string, value any, limit string) error {
	return fmt.Errorf("%s is %v; it must be %s", attribute, value, limit)
}
