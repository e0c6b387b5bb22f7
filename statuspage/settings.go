package statuspage

import (
	"fmt"
	"path"
	"reflect"
	"regexp"
	"runtime"
	"strings"
	"time"

	"example.com/awsretry"
)

// A setting is a field of a Transport that is set.
type setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

// settingsOf returns the fields of a Transport that are set, in their order. It
// omits those without an effect in its mode, and the mode itself.
func settingsOf(t *awsretry.Transport) []setting {
	all := []setting{}
	var add func(prefix string, fields reflect.Value)
	add = func(prefix string, fields reflect.Value) {
		for i := range fields.NumField() {
			field, v := fields.Type().Field(i), fields.Field(i)
			switch name := prefix + field.Name; {
			case !field.IsExported() || v.IsZero() || name == "Mode" || name == "Quota" && t.Mode == awsretry.Legacy ||
				name == "RateLimit" && t.Mode != awsretry.Adaptive:
			case v.Kind() == reflect.Struct:
				add(name+".", v)
			default:
				all = append(all, setting{name, clean(valueOf(v), maxText)})
			}
		}
	}
	add("", reflect.ValueOf(t).Elem())
	return all
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
		return "exponential" + set(v.Elem())
	case awsretry.Decorrelated:
		return "decorrelated" + set(v.Elem())
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

// set returns the fields of a Backoff that are set, or "".
func set(v reflect.Value) string {
	var text []string
	for i := range v.NumField() {
		if field := v.Field(i); !field.IsZero() {
			text = append(text, " "+v.Type().Field(i).Name+" "+valueOf(field))
		}
	}
	return strings.Join(text, ",")
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
	name := closure.ReplaceAllString(path.Base(f.Name()), "")
	if name == "awsretry.idempotentOnly" { // what awsretry.IdempotentOnly(nil) returns
		return "awsretry.IdempotentOnly"
	}
	return name
}
