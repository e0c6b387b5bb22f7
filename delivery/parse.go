package delivery

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
)

// Parse reads the delivery policy of a subscription:
//
//	{"healthyRetryPolicy": {"minDelayTarget": 1, "maxDelayTarget": 60, "numRetries": 50}, "throttlePolicy": {}, "requestPolicy": {}}
//
// An attribute that is unknown, stands twice, has the wrong type (null included), is no whole number or is out of
// its limits is an error that names it, its value and what is allowed. The content type is the exception: which ones
// are allowed depends on the subscription, so [Policy.Validate] judges it.
func Parse(data []byte) (*Policy, error) {
	p := &Policy{}
	if err := decode(data, func(d decoder) attribute { return d.policy(p) }); err != nil {
		return nil, err
	}
	if err := p.limits(); err != nil {
		return nil, err
	}
	return p, nil
}

// ParseTopic reads the delivery policy of a topic, as [Parse] reads a subscription's:
//
//	{"http": {"defaultHealthyRetryPolicy": {}, "disableSubscriptionOverrides": false, "defaultThrottlePolicy": {}, "defaultRequestPolicy": {}}}
func ParseTopic(data []byte) (*TopicPolicy, error) {
	t := &TopicPolicy{}
	if err := decode(data, func(d decoder) attribute { return d.topic(t) }); err != nil {
		return nil, err
	}
	if err := t.limits(); err != nil {
		return nil, err
	}
	return t, nil
}

// UnmarshalJSON is [Parse], so that a policy inside another document is read as strictly.
func (p *Policy) UnmarshalJSON(data []byte) error {
	q, err := Parse(data)
	if err == nil {
		*p = *q
	}
	return err
}

// UnmarshalJSON is [ParseTopic], so that a policy inside another document is read as strictly.
func (t *TopicPolicy) UnmarshalJSON(data []byte) error {
	u, err := ParseTopic(data)
	if err == nil {
		*t = *u
	}
	return err
}

// A decoder reads the tokens of a document that is known to be JSON. encoding/json alone would take the last of two
// equal keys, names in any letter case, and null for anything.
type decoder struct{ *json.Decoder }

// An attribute reads its value from the decoder; path is its name, with those of the objects around it.
type attribute func(path string) error

func decode(data []byte, root func(decoder) attribute) error {
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil { // the tokens alone do not show every syntax error
		return fmt.Errorf("delivery: the policy is not JSON: %w", err)
	}
	d := decoder{json.NewDecoder(bytes.NewReader(data))}
	d.UseNumber()
	return root(d)("")
}

func (d decoder) policy(p *Policy) attribute {
	return d.object(map[string]attribute{
		"healthyRetryPolicy": d.retry(&p.HealthyRetryPolicy),
		"throttlePolicy":     d.throttle(&p.ThrottlePolicy),
		"requestPolicy":      d.request(&p.RequestPolicy),
	})
}

func (d decoder) topic(t *TopicPolicy) attribute {
	h := &TopicHTTPPolicy{}
	http := d.object(map[string]attribute{
		"defaultHealthyRetryPolicy":    d.retry(&h.DefaultHealthyRetryPolicy),
		"disableSubscriptionOverrides": d.boolean(&h.DisableSubscriptionOverrides),
		"defaultThrottlePolicy":        d.throttle(&h.DefaultThrottlePolicy),
		"defaultRequestPolicy":         d.request(&h.DefaultRequestPolicy),
	})
	return d.object(map[string]attribute{"http": func(path string) error {
		t.HTTP = h
		return http(path)
	}})
}

func (d decoder) retry(to **RetryPolicy) attribute {
	r := &RetryPolicy{}
	block := d.object(map[string]attribute{
		"minDelayTarget":     d.integer(&r.MinDelayTarget, limitMinDelayTarget),
		"maxDelayTarget":     d.integer(&r.MaxDelayTarget, limitMaxDelayTarget),
		"numRetries":         d.integer(&r.NumRetries, limitNumRetries),
		"numNoDelayRetries":  d.integer(&r.NumNoDelayRetries, limitNumPhaseRetries),
		"numMinDelayRetries": d.integer(&r.NumMinDelayRetries, limitNumPhaseRetries),
		"numMaxDelayRetries": d.integer(&r.NumMaxDelayRetries, limitNumPhaseRetries),
		"backoffFunction": d.text(func(s string) { r.BackoffFunction = BackoffFunction(s) },
			limitBackoffFunction),
	})
	return func(path string) error {
		*to = r
		return block(path)
	}
}

func (d decoder) throttle(to **ThrottlePolicy) attribute {
	t := &ThrottlePolicy{}
	block := d.object(map[string]attribute{
		"maxReceivesPerSecond": d.integer(&t.MaxReceivesPerSecond, limitMaxReceives),
	})
	return func(path string) error {
		*to = t
		return block(path)
	}
}

func (d decoder) request(to **RequestPolicy) attribute {
	r := &RequestPolicy{}
	block := d.object(map[string]attribute{
		"headerContentType": d.text(func(s string) { r.HeaderContentType = s },
			"one of "+strings.Join(contentTypes(true), ", ")),
	})
	return func(path string) error {
		*to = r
		return block(path)
	}
}

func (d decoder) object(known map[string]attribute) attribute {
	return func(path string) error {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		if tok != json.Delim('{') {
			if path == "" {
				path = "the policy"
			}
			return outOfLimits(path, describe(tok), "an object")
		}
		seen := map[string]bool{}
		for d.More() {
			tok, err := d.Token()
			if err != nil {
				return err
			}
			key := tok.(string)
			at := clip(key)
			if path != "" {
				at = path + "." + at
			}
			read, ok := known[key]
			switch {
			case !ok:
				return fmt.Errorf("delivery: %s is not an attribute of a delivery policy; allowed here: %s",
					strconv.Quote(at), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			case seen[key]:
				return fmt.Errorf("delivery: %s stands twice; an attribute must stand once", at)
			}
			seen[key] = true
			if err := read(at); err != nil {
				return err
			}
		}
		_, err = d.Token()
		return err
	}
}

func (d decoder) integer(to **int, limit string) attribute {
	return func(path string) error {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		if number, ok := tok.(json.Number); ok {
			if n, err := strconv.Atoi(number.String()); err == nil {
				*to = &n
				return nil
			}
		}
		return outOfLimits(path, describe(tok), limit)
	}
}

func (d decoder) boolean(to **bool) attribute {
	return func(path string) error {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		b, ok := tok.(bool)
		if !ok {
			return outOfLimits(path, describe(tok), "true or false")
		}
		*to = &b
		return nil
	}
}

// text reads a string that is not empty: in a Policy, "" means that the attribute was not given.
func (d decoder) text(set func(string), limit string) attribute {
	return func(path string) error {
		tok, err := d.Token()
		if err != nil {
			return err
		}
		s, ok := tok.(string)
		if !ok || s == "" {
			return outOfLimits(path, describe(tok), limit)
		}
		set(s)
		return nil
	}
}

// describe shows a JSON value in an error.
func describe(tok json.Token) string {
	switch v := tok.(type) {
	case json.Delim:
		if v == '{' {
			return "an object"
		}
		return "an array"
	case string:
		return quote(v)
	case json.Number:
		return clip(v.String())
	case nil:
		return "null"
	}
	return fmt.Sprint(tok)
}

func quote(s string) string { return strconv.Quote(clip(s)) }

// clip keeps an error short where a document's author did not.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
