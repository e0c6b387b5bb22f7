package delivery

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
)

func TestInvalidPolicies(t *testing.T) {
	retry := func(s string) string { return `{"healthyRetryPolicy":{` + s + `}}` }
	most := strconv.Itoa(math.MaxInt)
	tests := []struct {
		text string
		want []string // parts of the error: the attribute, the value, the limit
	}{
		{``, []string{"not JSON"}},
		{`{`, []string{"not JSON", "unexpected end"}},
		{`{}{}`, []string{"not JSON", "after top-level value"}},
		{`{} x`, []string{"not JSON", "after top-level value"}},
		{`{"throttlePolicy":{},}`, []string{"not JSON"}},
		{`null`, []string{"the policy is null", "an object"}},
		{`[]`, []string{"the policy is an array", "an object"}},
		{`"x"`, []string{`the policy is "x"`, "an object"}},
		{`{"throttlePolicy":[{}]}`, []string{"throttlePolicy is an array", "an object"}},
		{`{"sicklyRetryPolicy":{}}`,
			[]string{`"sicklyRetryPolicy" is not an attribute`, "healthyRetryPolicy, requestPolicy, throttlePolicy"}},
		{`{"sicklyRetryPolicy":{"numRetries":1}}`, []string{`"sicklyRetryPolicy" is not an attribute`}},
		{`{"sicklyRetryPolicy":null,"sicklyRetryPolicy":null}`, []string{"sicklyRetryPolicy appears twice"}},
		{`{"guaranteed":true}`, []string{`"guaranteed" is not an attribute`}},
		{`{"guaranteed":null}`, []string{`"guaranteed" is not an attribute`}},
		{byteOrderMark + byteOrderMark + `{}`, []string{"not JSON"}},
		{`{"HealthyRetryPolicy":{}}`, []string{`"HealthyRetryPolicy" is not an attribute`}},
		{`{"http":{}}`, []string{`"http" is not an attribute`}},
		{retry(`"numretries":1`), []string{`"healthyRetryPolicy.numretries" is not an attribute`, "numRetries"}},
		{`{"throttlePolicy":{},"throttlePolicy":{}}`, []string{"throttlePolicy appears twice"}},
		{retry(`"numRetries":1,"numRetries":1`), []string{"healthyRetryPolicy.numRetries appears twice"}},
		{retry(`"numRetries":1,"num\u0052etries":1`), []string{"healthyRetryPolicy.numRetries appears twice"}},

		{retry(`"numRetries":-1`), []string{"healthyRetryPolicy.numRetries is -1", "0 to 100"}},
		{retry(`"numRetries":101`), []string{"healthyRetryPolicy.numRetries is 101", "0 to 100"}},
		{retry(`"numRetries":1.5`), []string{"healthyRetryPolicy.numRetries is 1.5", "whole number, 0 to 100"}},
		{retry(`"numRetries":1.0`), []string{"healthyRetryPolicy.numRetries is 1.0", "whole number, 0 to 100"}},
		{retry(`"numRetries":1e1`), []string{"healthyRetryPolicy.numRetries is 1e1", "whole number"}},
		{retry(`"numRetries":1e999999999`), []string{"healthyRetryPolicy.numRetries is 1e999999999", "0 to 100"}},
		{retry(`"numRetries":9223372036854775808`), []string{"numRetries is 9223372036854775808", "0 to 100"}},
		{retry(`"numRetries":9223372036854775807`), []string{"numRetries is 9223372036854775807", "0 to 100"}},
		{retry(`"numRetries":"3"`), []string{`numRetries is "3"`, "a whole number"}},
		{retry(`"numRetries":true`), []string{`numRetries is true`, "a whole number"}},
		{retry(`"numRetries":null`), []string{`numRetries is null`, "a whole number"}},
		{retry(`"numRetries":{}`), []string{`numRetries is an object`, "a whole number"}},
		{retry(`"minDelayTarget":0`), []string{"healthyRetryPolicy.minDelayTarget is 0", "1 to maxDelayTarget"}},
		{retry(`"minDelayTarget":-5`), []string{"healthyRetryPolicy.minDelayTarget is -5", "1 to maxDelayTarget"}},
		{retry(`"minDelayTarget":21`), []string{"healthyRetryPolicy.minDelayTarget is 21", "1 to maxDelayTarget (20)"}},
		{retry(`"minDelayTarget":6,"maxDelayTarget":5`), []string{"minDelayTarget is 6", "1 to maxDelayTarget (5)"}},
		{retry(`"maxDelayTarget":19`),
			[]string{"healthyRetryPolicy.maxDelayTarget is 19", "minDelayTarget (20, its default) to 3600"}},
		{retry(`"maxDelayTarget":0`), []string{"healthyRetryPolicy.maxDelayTarget is 0", "minDelayTarget to 3600"}},
		{retry(`"maxDelayTarget":3601`),
			[]string{"healthyRetryPolicy.maxDelayTarget is 3601", "minDelayTarget to 3600"}},
		{retry(`"minDelayTarget":3601,"maxDelayTarget":3601`),
			[]string{"minDelayTarget is 3601", "maxDelayTarget is 3601"}},
		{retry(`"numNoDelayRetries":-1`), []string{"healthyRetryPolicy.numNoDelayRetries is -1", "0 to numRetries"}},
		{retry(`"numMinDelayRetries":-1`), []string{"healthyRetryPolicy.numMinDelayRetries is -1", "0 to numRetries"}},
		{retry(`"numMaxDelayRetries":-1`), []string{"healthyRetryPolicy.numMaxDelayRetries is -1", "0 to numRetries"}},
		{retry(`"numNoDelayRetries":4`), []string{"healthyRetryPolicy.numNoDelayRetries is 4", "(3)"}},
		{retry(`"numRetries":5,"numNoDelayRetries":2,"numMinDelayRetries":2,"numMaxDelayRetries":2`),
			[]string{"numMaxDelayRetries is 2", "(5)"}},
		{retry(`"numNoDelayRetries":` + most + `,"numMinDelayRetries":` + most),
			[]string{"numNoDelayRetries is " + most, "numMinDelayRetries is " + most}},
		{retry(`"backoffFunction":"cubic"`),
			[]string{`healthyRetryPolicy.backoffFunction is "cubic"`, "arithmetic, exponential, geometric, linear"}},
		{retry(`"backoffFunction":"Linear"`), []string{`healthyRetryPolicy.backoffFunction is "Linear"`}},
		{retry(`"backoffFunction":""`), []string{`healthyRetryPolicy.backoffFunction is ""`, "arithmetic"}},
		{retry(`"backoffFunction":1`), []string{`healthyRetryPolicy.backoffFunction is 1`, "arithmetic"}},
		{retry(`"minDelayTarget":36,"maxDelayTarget":36,"numRetries":100,"numNoDelayRetries":-1`),
			[]string{"numNoDelayRetries is -1"}},
		{retry(`"minDelayTarget":37,"maxDelayTarget":37,"numRetries":100`),
			[]string{"healthyRetryPolicy", "3700 s", "at most 3600 s"}},
		{retry(`"minDelayTarget":1,"maxDelayTarget":72,"numRetries":100`),
			[]string{"the sum of the pauses is 3650 s", "at most 3600 s"}},
		{retry(`"minDelayTarget":3600,"maxDelayTarget":3600,"numRetries":2`), []string{"7200 s", "at most 3600 s"}},
		{`{"throttlePolicy":{"maxReceivesPerSecond":0}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is 0", "1 or more"}},
		{`{"throttlePolicy":{"maxReceivesPerSecond":-1}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is -1", "1 or more"}},
		{`{"throttlePolicy":{"maxReceivesPerSecond":0.5}}`,
			[]string{"throttlePolicy.maxReceivesPerSecond is 0.5", "1 or more"}},
		{`{"requestPolicy":{"headerContentType":7}}`, []string{"requestPolicy.headerContentType is 7", "text/plain"}},
		{`{"requestPolicy":{"headerContentType":""}}`, []string{`requestPolicy.headerContentType is ""`, "text/plain"}},
		{`{"requestPolicy":{"contentType":"text/plain"}}`,
			[]string{`"requestPolicy.contentType" is not an attribute`, "headerContentType"}},
		{retry(`"backoffFunction":"` + strings.Repeat("x", 1000) + `"`), []string{"xxx…", "arithmetic"}},
		{`{"` + strings.Repeat("y", 1000) + `":1}`, []string{"yyy…"}},
	}
	for _, test := range tests {
		t.Run(fmt.Sprintf("%.80s", test.text), func(t *testing.T) {
			p, err := Parse([]byte(test.text))
			if checkRefusal(t, err, test.want); p != nil {
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
		`{"http":{},"http":{}}`:                            {"http appears twice"},
		`{"http":{"healthyRetryPolicy":{}}}`:               {`"http.healthyRetryPolicy" is not`, "defaultHealthyRetryPolicy"},
		`{"http":{"disableSubscriptionOverrides":"true"}}`: {`disableSubscriptionOverrides is "true"`, "true or false"},
		`{"http":{"disableSubscriptionOverrides":null}}`:   {`disableSubscriptionOverrides is null`, "true or false"},

		inTopic("HealthyRetry", `"numRetries":101`):           {"http.defaultHealthyRetryPolicy.numRetries is 101"},
		inTopic("Throttle", `"maxReceivesPerSecond":0`):       {"http.defaultThrottlePolicy.maxReceivesPerSecond is 0"},
		inTopic("Request", `"headerContentType":["a","b"]`):   {"http.defaultRequestPolicy.headerContentType is an array"},
		inTopic("Request", `"headerContentType":"image/png"`): {`is "image/png"`, "application/json, text/plain"},
		inTopic("Request", `"headerContentType":"text/css"`):  {`is "text/css"`, "where raw message delivery is off"},

		inTopic("Request", `"headerContentType":"text/plain;\r\nX: y"`): {`is "text/plain;\r\nX: y"`, "control characters"},
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
		`{"healthyRetryPolicy":{"numRetries":0,"numNoDelayRetries":0}}`,
		`{"healthyRetryPolicy":{"numRetries":100,"numNoDelayRetries":100}}`,
		`{"healthyRetryPolicy":{"minDelayTarget":1,"maxDelayTarget":3600,"numRetries":1}}`,
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
}

func TestContentTypes(t *testing.T) {
	const plain, raw, neither = 1, 2, 3
	for contentType, allowed := range map[string]int{
		"": plain, "application/json": plain, "text/plain": plain,
		"text/css": raw, "text/csv": raw, "text/html": raw, "text/xml": raw, "application/atom+xml": raw,
		"application/octet-stream": raw, "application/soap+xml": raw, "application/x-www-form-urlencoded": raw,
		"application/xhtml+xml": raw, "application/xml": raw,
		"image/png": neither, "Application/JSON": neither, "text/plain\r\nX: y": neither,

		"text/plain; charset=UTF-8": plain, "text/plain ;charset=UTF-8": plain, "text/plain;": plain,
		"application/json;x=\"y\"": plain, "text/css;charset=UTF-8": raw,
		"image/png; charset=UTF-8": neither, "text/plain charset=UTF-8": neither, "; charset=UTF-8": neither,
	} {
		p := &Policy{RequestPolicy: &RequestPolicy{HeaderContentType: contentType}}
		topic := &TopicPolicy{HTTP: &TopicHTTPPolicy{DefaultRequestPolicy: p.RequestPolicy}}
		for _, tt := range []struct {
			name string
			err  error
			ok   bool
		}{
			{"not raw", p.ValidateWrapped(), allowed == plain},
			{"raw", p.ValidateRaw(), allowed != neither},
			{"topic", topic.Validate(), allowed == plain},
		} {
			t.Run(fmt.Sprintf("%q/%s", contentType, tt.name), func(t *testing.T) {
				if tt.ok && tt.err != nil {
					t.Error(tt.err)
				}
				if !tt.ok {
					attribute := fmt.Sprintf("equestPolicy.headerContentType is %q", contentType)
					checkRefusal(t, tt.err, []string{attribute, "application/json"})
				}
			})
		}
	}
}

func TestValidateJoinsAllErrors(t *testing.T) {
	p := &Policy{
		HealthyRetryPolicy: &RetryPolicy{NumRetries: ptr(-1), MaxDelayTarget: ptr(9999), BackoffFunction: "x"},
		ThrottlePolicy:     &ThrottlePolicy{MaxReceivesPerSecond: ptr(math.MinInt)},
		RequestPolicy:      &RequestPolicy{HeaderContentType: "image/png"},
	}
	checkRefusal(t, p.ValidateRaw(), []string{
		"numRetries is -1", "maxDelayTarget is 9999", `backoffFunction is "x"`,
		"maxReceivesPerSecond is " + strconv.Itoa(math.MinInt), `headerContentType is "image/png"`,
	})
	if err := (*Policy)(nil).ValidateWrapped(); err != nil {
		t.Errorf("a nil policy: %v", err)
	}
	if err := (*TopicPolicy)(nil).Validate(); err != nil {
		t.Errorf("a nil topic policy: %v", err)
	}
}
