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
//	{
//	  "healthyRetryPolicy": {
//	    "minDelayTarget": 1, "maxDelayTarget": 60, "numRetries": 50
//	  },
//	  "throttlePolicy": {"maxReceivesPerSecond": 10},
//	  "requestPolicy": {"headerContentType": "application/json"}
//	}
//
// It also accepts what Amazon SNS returns as EffectiveDeliveryPolicy: a null
// block is absent, and "sicklyRetryPolicy": null and "guaranteed": false are
// ignored. So is a UTF-8 byte order mark.
//
// Parse returns an error for an attribute that is unknown, repeated, of the
// wrong type or out of its limits. The error names the attribute, its value and
// what is allowed. Parse does not check which content type is allowed, because
// it depends on the subscription: see [Policy.ValidateWrapped] and
// [Policy.ValidateRaw].
func Parse(data []byte) (*Policy, error) {
	p := &Policy{}
	if err := decode(data, func(d decoder) attribute { return d.policy(p) }); err != nil {
		return nil, err
	}
	if err := named("delivery: ", p.limits()...); err != nil {
		return nil, err
	}
	return p, nil
}

// ParseTopic reads the delivery policy of a topic, as [Parse] reads a
// subscription's:
//
//	{"http": {
//	  "defaultHealthyRetryPolicy": {},
//	  "disableSubscriptionOverrides": false,
//	  "defaultThrottlePolicy": {},
//	  "defaultRequestPolicy": {}
//	}}
//
// It checks the content type too.
func ParseTopic(data []byte) (*TopicPolicy, error) {
	t := &TopicPolicy{}
	if err := decode(data, func(d decoder) attribute { return d.topic(t) }); err != nil {
		return nil, err
	}
	if err := t.Validate(); err != nil {
		return nil, err
	}
	return t, nil
}

// UnmarshalJSON reads a policy within another document as strictly as [Parse].
// By convention, null leaves the policy unchanged.
func (p *Policy) UnmarshalJSON(data []byte) error { return unmarshal(p, data, Parse) }

// UnmarshalJSON reads a policy within another document as strictly as
// [ParseTopic]. By convention, null leaves the policy unchanged.
func (t *TopicPolicy) UnmarshalJSON(data []byte) error { return unmarshal(t, data, ParseTopic) }

func unmarshal[T any](into *T, data []byte, parse func([]byte) (*T, error)) error {
	if string(data) == "null" {
		return nil
	}
	read, err := parse(data)
	if err == nil {
		*into = *read
	}
	return err
}

// A decoder reads the tokens of a valid JSON document. json.Unmarshal would
// accept duplicate keys, names in any letter case, and null for any value.
type decoder struct{ *json.Decoder }

// An attribute reads the value whose first token is tok. path is its name,
// qualified by the names of the objects that it is in.
type attribute func(path string, tok json.Token) error

// legacy maps attributes that Amazon SNS returns without documenting them to
// the one value that is ignored.
var legacy = map[string]json.Token{
	"sicklyRetryPolicy":        nil,
	"defaultSicklyRetryPolicy": nil,
	"guaranteed":               false,
}

const byteOrderMark = "\ufeff"

func decode(data []byte, root func(decoder) attribute) error {
	data = bytes.TrimPrefix(data, []byte(byteOrderMark))
	var whole json.RawMessage
	if err := json.Unmarshal(data, &whole); err != nil { // Token misses some syntax errors
		return fmt.Errorf("delivery: the policy is not JSON: %w", err)
	}
	d := decoder{json.NewDecoder(bytes.NewReader(data))}
	d.UseNumber()
	tok, err := d.Token()
	if err == nil {
		err = root(d)("", tok)
	}
	return named("delivery: ", err)
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
	return d.object(map[string]attribute{"http": block(&t.HTTP, h, d.object(map[string]attribute{
		"defaultHealthyRetryPolicy":    d.retry(&h.DefaultHealthyRetryPolicy),
		"disableSubscriptionOverrides": boolean(&h.DisableSubscriptionOverrides),
		"defaultThrottlePolicy":        d.throttle(&h.DefaultThrottlePolicy),
		"defaultRequestPolicy":         d.request(&h.DefaultRequestPolicy),
	}))})
}

func (d decoder) retry(to **RetryPolicy) attribute {
	r := &RetryPolicy{}
	return block(to, r, d.object(map[string]attribute{
		"minDelayTarget":     integer(&r.MinDelayTarget, limitMinDelayTarget),
		"maxDelayTarget":     integer(&r.MaxDelayTarget, limitMaxDelayTarget),
		"numRetries":         integer(&r.NumRetries, limitNumRetries),
		"numNoDelayRetries":  integer(&r.NumNoDelayRetries, limitNumPhaseRetries),
		"numMinDelayRetries": integer(&r.NumMinDelayRetries, limitNumPhaseRetries),
		"numMaxDelayRetries": integer(&r.NumMaxDelayRetries, limitNumPhaseRetries),
		"backoffFunction":    text(&r.BackoffFunction, limitBackoffFunction),
	}))
}

func (d decoder) throttle(to **ThrottlePolicy) attribute {
	t := &ThrottlePolicy{}
	maxReceives := integer(&t.MaxReceivesPerSecond, limitMaxReceives)
	return block(to, t, d.object(map[string]attribute{
		"maxReceivesPerSecond": func(path string, tok json.Token) error {
			if tok == nil { // no throttling, as if the block were null
				return nil
			}
			return maxReceives(path, tok)
		},
	}))
}

func (d decoder) request(to **RequestPolicy) attribute {
	r := &RequestPolicy{}
	return block(to, r, d.object(map[string]attribute{
		"headerContentType": text(&r.HeaderContentType, "one of "+strings.Join(contentTypes(true), ", ")),
	}))
}

// block reads an object that may be null. If it is not, block sets *to to v, to
// which read writes.
func block[T any](to **T, v *T, read attribute) attribute {
	return func(path string, tok json.Token) error {
		if tok == nil {
			return nil
		}
		*to = v
		return read(path, tok)
	}
}

// object reads an object that may have only the known attributes.
func (d decoder) object(known map[string]attribute) attribute {
	return func(path string, tok json.Token) error {
		if tok != json.Delim('{') {
			if path == "" {
				path = "the policy"
			}
			return outOfLimits(path, describe(tok), "an object")
		}
		seen := map[string]bool{}
		for d.More() {
			name, err := d.Token()
			if err != nil {
				return err
			}
			value, err := d.Token()
			if err != nil {
				return err
			}
			key := name.(string)
			at := clip(key)
			if path != "" {
				at = path + "." + at
			}
			if seen[key] {
				return fmt.Errorf("%s appears twice; an attribute may appear once", at)
			}
			seen[key] = true
			read, ok := known[key]
			empty, old := legacy[key]
			switch {
			case ok:
				if err := read(at, value); err != nil {
					return err
				}
			case !old || value != empty:
				return fmt.Errorf("%s is not an attribute of a delivery policy; allowed here: %s",
					strconv.Quote(at), strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			}
		}
		_, err := d.Token()
		return err
	}
}

func integer(to **int, limit string) attribute {
	return func(path string, tok json.Token) error {
		if number, ok := tok.(json.Number); ok {
			if n, err := strconv.Atoi(number.String()); err == nil {
				*to = &n
				return nil
			}
		}
		return outOfLimits(path, describe(tok), limit)
	}
}

func boolean(to **bool) attribute {
	return func(path string, tok json.Token) error {
		b, ok := tok.(bool)
		if !ok {
			return outOfLimits(path, describe(tok), "true or false")
		}
		*to = &b
		return nil
	}
}

// text reads a string that is not empty, because in a Policy "" means an absent
// attribute.
func text[T ~string](to *T, limit string) attribute {
	return func(path string, tok json.Token) error {
		s, ok := tok.(string)
		if !ok || s == "" {
			return outOfLimits(path, describe(tok), limit)
		}
		*to = T(s)
		return nil
	}
}

// describe returns a JSON value for an error.
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

// clip shortens text of a document for an error.
func clip(s string) string {
	const most = 64
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
