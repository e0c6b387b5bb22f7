package statuspage

import (
	"cmp"
	"fmt"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"strconv"
	"strings"
	"time"

	"example.com/awsretry"
)

// A setting is a field of a Transport with the value in force.
type setting struct {
	Name    string `json:"name"`
	Value   string `json:"value"`
	Default bool   `json:"default"` // the field is not set
}

// settingsOf returns the settings of a Transport in the order of its fields.
func settingsOf(t *awsretry.Transport) (all []setting) {
	defaults := defaultsOf(t)
	var add func(prefix string, fields reflect.Value)
	add = func(prefix string, fields reflect.Value) {
		for i := range fields.NumField() {
			field, v := fields.Type().Field(i), fields.Field(i)
			name := prefix + field.Name
			switch _, isDefault := defaults[name]; {
			case !field.IsExported() || name == "Quota" && t.Mode == awsretry.Legacy ||
				name == "RateLimit" && t.Mode != awsretry.Adaptive:
			case v.Kind() == reflect.Struct:
				add(name+".", v)
			case v.IsZero() && isDefault:
				all = append(all, setting{name, defaults[name], true})
			default:
				all = append(all, setting{name, clean(valueOf(v), maxText), v.IsZero()})
			}
		}
	}
	add("", reflect.ValueOf(t).Elem())
	return all
}

// defaultsOf returns what the zero values of fields mean, if they do not say so
// themselves.
func defaultsOf(t *awsretry.Transport) map[string]string {
	d := map[string]string{
		"Base": "a shared pooled transport", "Mode": "standard", "Revision": "classic", "MaxAttempts": "3",
		"AttemptTimeout": "none", "StallTimeout": "none", "Policy": "DefaultPolicy",
		"Backoff": "up to 1s, 2s, 4s, … 20s", "MaxRetryAfter": "1m0s", "Partition": "the URL's host and port",
		"MaxPartitions": strconv.Itoa(defaultLimit), "MaxBodyBuffer": "1048576", "LongPoll": "none",
		"RetryAfterSpread": "a quarter of Retry-After, up to 5s", "RetryAfter": "the Retry-After header",
		"Shared":         "this process alone",
		"Quota.Capacity": "500", "Quota.RetryCost": "5", "Quota.TimeoutCost": "10", "Quota.ThrottlingCost": "10",
		"Quota.SuccessIncrement": "1", "Quota.Share": "none",
		"RateLimit.Beta": "0.7", "RateLimit.ScaleConstant": "0.4", "RateLimit.Smoothing": "0.8",
		"RateLimit.MinFillRate": "0.5", "RateLimit.MinCapacity": "1", "RateLimit.MeasureInterval": "500ms",
		"RateLimit.MaxWait": "none", "RateLimit.Cost": "learned",
	}
	for _, hook := range []string{"Prepare", "Peek", "IdempotencyKey", "Observe", "RateLimit.Limits"} {
		d[hook] = "none"
	}
	if t.RateLimit.Pacing == awsretry.ScaledPacing {
		d["RateLimit.Beta"], d["RateLimit.ScaleConstant"] = "0.9", "none"
	}
	switch {
	case t.Mode == awsretry.Legacy:
		d["MaxAttempts"], d["RetryAfterSpread"] = "4", "none"
		d["Backoff"] = "30ms to 60ms, or 500ms to 1s after throttling, doubled each time"
	case t.Revision == awsretry.Revision2026:
		d["MaxAttempts"] = "3; DynamoDB 4"
		d["Backoff"] = "up to 50ms (DynamoDB 25ms), or 1s after throttling, doubled each time, up to 20s"
		d["LongPoll"] = "the AWS operations that do"
		d["Quota.RetryCost"], d["Quota.TimeoutCost"], d["Quota.ThrottlingCost"] = "14", "14", "5"
	}
	return d
}

// valueOf returns the text of a value: of the program's own types and functions
// their names. A negative number switches something off.
func valueOf(v reflect.Value) string {
	if v.CanInt() && v.Int() < 0 {
		return "off"
	}
	switch value := v.Interface().(type) {
	case time.Duration:
		return value.String()
	case awsretry.Exponential:
		return exponential(value)
	case awsretry.Decorrelated:
		return fmt.Sprintf("decorrelated from %v to %v", cmp.Or(value.Initial, time.Second), cmp.Or(value.Max, 20*time.Second))
	case awsretry.BackoffFunc:
		return function(v.Elem())
	case fmt.Stringer:
		if v.Kind() == reflect.Int {
			return value.String()
		}
	}
	switch v.Kind() {
	case reflect.Func:
		return function(v)
	case reflect.Interface, reflect.Pointer:
		return reflect.TypeOf(v.Interface()).String()
	}
	return fmt.Sprint(v.Interface())
}

// exponential returns the text of a Backoff with the fields that are set.
func exponential(e awsretry.Exponential) string {
	var set []string
	v := reflect.ValueOf(e)
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsZero() {
			set = append(set, v.Type().Field(i).Name+" "+valueOf(field))
		}
	}
	return strings.TrimSpace("exponential " + strings.Join(set, ", "))
}

// closure matches what the compiler adds to the name of the function that made a
// closure, or bound a method.
var closure = regexp.MustCompile(`\.func\d+(\.\d+)*|-fm$`)

// function returns the name of a function, without the path of its package.
func function(v reflect.Value) string {
	f := runtime.FuncForPC(v.Pointer())
	if f == nil {
		return "set"
	}
	return closure.ReplaceAllString(path.Base(f.Name()), "")
}
