package delivery

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestInvalidPolicies(t *testing.T) {
	retry := func(s string) string { return `{"healthyRetryPolicy":{` + s + `}}` }
	most := strconv.Itoa(math.MaxInt)
	for _, tt := range []struct {
		text string
		want []string // parts of the error: the attribute, the value, the limit
	}{
		{`{`, []string{"not JSON", "unexpected end"}},
		{`{} x`, []string{"not JSON", "after top-level value"}},
		{`{"throttlePolicy":{},}`, []string{"not JSON"}},
		{byteOrderMark + byteOrderMark + `{}`, []string{"not JSON"}},
		{`null`, []string{"the policy is null", "an object"}},
		{`{"throttlePolicy":[{}]}`, []string{"throttlePolicy is an array", "an object"}},
		{`{"sicklyRetryPolicy":{"numRetries":1}}`,
			[]string{`"sicklyRetryPolicy" is not an attribute`, "healthyRetryPolicy, requestPolicy, throttlePolicy"}},
		{`{"sicklyRetryPolicy":null,"sicklyRetryPolicy":null}`, []string{"sicklyRetryPolicy appears twice"}},
		{`{"guaranteed":true}`, []string{`"guaranteed" is not an attribute`}},
		{`{"guaranteed":null}`, []string{`"guaranteed" is not an attribute`}},
		{`{"http":{}}`, []string{`"http" is not an attribute`}},
		{retry(`"numretries":1`), []string{`"healthyRetryPolicy.numretries" is not an attribute`, "numRetries"}},
		{retry(`"numRetries":1,"num\u0052etries":1`), []string{"healthyRetryPolicy.numRetries appears twice"}},

		{retry(`"numRetries":-1`), []string{"healthyRetryPolicy.numRetries is -1", "0 to 100"}},
		{retry(`"numRetries":101`), []string{"healthyRetryPolicy.numRetries is 101", "0 to 100"}},
		{retry(`"numRetries":1.0`), []string{"healthyRetryPolicy.numRetries is 1.0", "whole number, 0 to 100"}},
		{retry(`"numRetries":9223372036854775808`), []string{"numRetries is 9223372036854775808", "0 to 100"}},
		{retry(`"numRetries":"3"`), []string{`numRetries is "3"`, "a whole number"}},
		{retry(`"numRetries":true`), []string{`numRetries is true`, "a whole number"}},
		{retry(`"numRetries":null`), []string{`numRetries is null`, "a whole number"}},
		{retry(`"numRetries":{}`), []string{`numRetries is an object`, "a whole number"}},
		{retry(`"minDelayTarget":0`), []string{"healthyRetryPolicy.minDelayTarget is 0", "1 to maxDelayTarget"}},
		{retry(`"minDelayTarget":21`), []string{"healthyRetryPolicy.minDelayTarget is 21", "1 to maxDelayTarget (20)"}},
		{retry(`"maxDelayTarget":19`),
			[]string{"healthyRetryPolicy.maxDelayTarget is 19", "minDelayTarget (20, its default) to 3600"}},
		{retry(`"maxDelayTarget":0`), []string{"healthyRetryPolicy.maxDelayTarget is 0", "minDelayTarget to 3600"}},
		{retry(`"minDelayTarget":3601,"maxDelayTarget":3601`),
			[]string{"minDelayTarget is 3601", "maxDelayTarget is 3601"}},
		{retry(`"numNoDelayRetries":-1`), []string{"healthyRetryPolicy.numNoDelayRetries is -1", "0 to numRetries"}},
		{retry(`"numNoDelayRetries":4`), []string{"healthyRetryPolicy.numNoDelayRetries is 4", "(3)"}},
		{retry(`"numRetries":5,"numNoDelayRetries":2,"numMinDelayRetries":2,"numMaxDelayRetries":2`),
			[]string{"numMaxDelayRetries is 2", "(5)"}},
		{`{"healthyRetryPolicy":{"numNoDelayRetries":` + most + `,"numMinDelayRetries":` + most +
			`},"throttlePolicy":{"maxReceivesPerSecond":-1}}`,
			[]string{"numNoDelayRetries is " + most, "numMinDelayRetries is " + most, "maxReceivesPerSecond is -1"}},
		{retry(`"backoffFunction":"Linear"`),
			[]string{`healthyRetryPolicy.backoffFunction is "Linear"`, "arithmetic, exponential, geometric, linear"}},
		{retry(`"backoffFunction":""`), []string{`healthyRetryPolicy.backoffFunction is ""`, "arithmetic"}},
		{retry(`"backoffFunction":1`), []string{`healthyRetryPolicy.backoffFunction is 1`, "arithmetic"}},
		{retry(`"minDelayTarget":1,"maxDelayTarget":72,"numRetries":100`),
			[]string{"healthyRetryPolicy: the sum of the pauses is 3650 s", "at most 3600 s"}},
		{`{"throttlePolicy":{"maxReceivesPerSecond":0}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is 0", "1 to 2147483647"}},
		{`{"throttlePolicy":{"maxReceivesPerSecond":2147483648}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is 2147483648", "1 to 2147483647"}},
		{`{"throttlePolicy":{"maxReceivesPerSecond":0.5}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is 0.5", "1 to 2147483647"}},
		{`{"requestPolicy":{"headerContentType":7}}`, []string{"requestPolicy.headerContentType is 7", "text/plain"}},
		{retry(`"backoffFunction":"` + strings.Repeat("x", 1000) + `"`), []string{"xxx…", "arithmetic"}},
		{`{"` + strings.Repeat("y", 1000) + `":1}`, []string{"yyy…"}},
	} {
		t.Run(fmt.Sprintf("%.80s", tt.text), func(t *testing.T) {
			p, err := Parse([]byte(tt.text))
			if checkRefusal(t, err, tt.want); p != nil {
				t.Error("there is a policy too")
			}
		})
	}
}

// inTopic returns a topic's policy with one default.
func inTopic(name, text string) string {
	return `{"http":{"default` + name + `Policy":{` + text + `}}}`
}

func TestInvalidTopicPolicies(t *testing.T) {
	for text, want := range map[string][]string{
		`{"healthyRetryPolicy":{}}`:                        {`"healthyRetryPolicy" is not an attribute`, "http"},
		`{"http":{"healthyRetryPolicy":{}}}`:               {`"http.healthyRetryPolicy" is not`, "defaultHealthyRetryPolicy"},
		`{"http":{"disableSubscriptionOverrides":"true"}}`: {`disableSubscriptionOverrides is "true"`, "true or false"},

		inTopic("HealthyRetry", `"numRetries":101`):          {"http.defaultHealthyRetryPolicy.numRetries is 101"},
		inTopic("Throttle", `"maxReceivesPerSecond":0`):      {"http.defaultThrottlePolicy.maxReceivesPerSecond is 0"},
		inTopic("Request", `"headerContentType":["a","b"]`):  {"http.defaultRequestPolicy.headerContentType is an array"},
		inTopic("Request", `"headerContentType":"text/css"`): {`is "text/css"`, "where raw message delivery is off"},
	} {
		t.Run(text, func(t *testing.T) {
			p, err := ParseTopic([]byte(text))
			if checkRefusal(t, err, want); p != nil {
				t.Error("there is a policy too")
			}
		})
	}
}

// checkRefusal checks the error about a policy.
func checkRefusal(t *testing.T, err error, want []string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	for line := range strings.Lines(err.Error()) {
		if !strings.HasPrefix(line, "delivery: ") {
			t.Errorf("got %q, want it to begin with the package's name", line)
		}
	}
	for _, part := range want {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("got %q, want %q in it", err, part)
		}
	}
	if len(err.Error()) > 1000 {
		t.Errorf("an error of %d bytes", len(err.Error()))
	}
}

func TestPoliciesAtTheirLimits(t *testing.T) {
	for _, text := range []string{
		`{"healthyRetryPolicy":{"numRetries":0}}`,
		`{"healthyRetryPolicy":{"numRetries":100,"numNoDelayRetries":100}}`,
		`{"healthyRetryPolicy":{"minDelayTarget":3600,"maxDelayTarget":3600,"numRetries":1}}`,
		`{"healthyRetryPolicy":{"numRetries":6,"numNoDelayRetries":2,"numMinDelayRetries":2,"numMaxDelayRetries":2}}`,
		`{"healthyRetryPolicy":{"minDelayTarget":36,"maxDelayTarget":36,"numRetries":100}}`,
		// 3,600 s of delays that are not whole seconds, and the same with 1 ns
		// of rounding.
		`{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":71,"numRetries":100}}`,
		`{"healthyRetryPolicy":{"minDelayTarget":15,"maxDelayTarget":1175,"numRetries":8,` +
			`"backoffFunction":"arithmetic"}}`,
		`{"throttlePolicy":{"maxReceivesPerSecond":1}}`,
		" \r\n\t{} \n",
	} {
		t.Run(text, func(t *testing.T) { parse(t, text) })
	}
	if err := errors.Join((*Policy)(nil).ValidateWrapped(), (*TopicPolicy)(nil).Validate()); err != nil {
		t.Errorf("nil policies: %v", err)
	}
}

func TestContentTypes(t *testing.T) {
	const plain, raw, neither = 1, 2, 3
	for contentType, allowed := range map[string]int{
		"": plain, "application/json": plain, "text/plain": plain,
		"text/css": raw, "text/csv": raw, "text/html": raw, "text/xml": raw, "application/atom+xml": raw,
		"application/octet-stream": raw, "application/soap+xml": raw, "application/x-www-form-urlencoded": raw,
		"application/xhtml+xml": raw, "application/xml": raw,
		"image/png": neither, "Application/JSON": neither,

		"text/plain ;charset=UTF-8": plain, "text/css;charset=UTF-8": raw,
		"image/png; charset=UTF-8": neither, "text/plain charset=UTF-8": neither, "text/plain;\r\nX: y": neither,
	} {
		t.Run(contentType, func(t *testing.T) {
			p := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: contentType}}
			topic := &TopicPolicy{HTTP: &TopicHTTPPolicy{DefaultRequestPolicy: p.RequestPolicy}}
			want := []string{fmt.Sprintf("equestPolicy.headerContentType is %q", contentType), "application/json"}
			if strings.Contains(contentType, "\n") {
				want[1] = "control characters"
			}
			check := func(err error, ok bool) {
				t.Helper()
				if !ok {
					checkRefusal(t, err, want)
				} else if err != nil {
					t.Error(err)
				}
			}
			check(p.ValidateWrapped(), allowed == plain)
			check(topic.Validate(), allowed == plain)
			check(p.ValidateRaw(), allowed != neither)
		})
	}
}
