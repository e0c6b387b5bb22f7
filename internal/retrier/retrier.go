// Package retrier is what the RoundTrippers of this module that retry agree on:
// what may be their Base, so that retries are not put under each other, and the
// context for a wait before an attempt.
package retrier

import (
	"context"
	"fmt"
	"net/http"
	"reflect"
)

// A Retrier has a Mark embedded.
type Retrier interface{ retries() }

// A Mark is embedded in the RoundTrippers of this module that retry, so that
// they recognize each other without an import.
type Mark struct{}

func (Mark) retries() {}

// CheckBase returns an error if base makes no sense as the Base of a
// RoundTripper that retries. The error begins with name. A nil base is valid:
// it is the default.
func CheckBase(name string, base http.RoundTripper) error {
	switch {
	case IsNil(base):
		return fmt.Errorf("%s is a nil %T; it must be a usable RoundTripper, or nil for the shared default", name, base)
	case leadsToRetrier(base, make(map[any]bool)):
		return fmt.Errorf("%s is, or sends through, another awsretry.Transport or a delivery.Transport; "+
			"retries of retries multiply, so there must be one alone", name)
	}
	return nil
}

// IsNil reports whether v is an interface that holds a nil pointer, function or
// map.
func IsNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return r.IsNil()
	}
	return false
}

// leadsToRetrier reports whether requests that rt sends go through a Retrier,
// as far as that can be seen from outside: rt is one, or a struct that sends
// through one.
func leadsToRetrier(rt http.RoundTripper, seen map[any]bool) bool {
	if _, ok := rt.(Retrier); ok {
		return true
	}
	v := reflect.ValueOf(rt)
	if v.Kind() == reflect.Pointer {
		if v.IsNil() || seen[rt] {
			return false
		}
		seen[rt] = true
		v = v.Elem()
	}
	if v.Kind() != reflect.Struct {
		return false
	}
	field, ok := wayOut(v.Type())
	if !ok {
		return false
	}
	inner, ok := v.FieldByIndex(field.Index).Interface().(http.RoundTripper)
	return ok && leadsToRetrier(inner, seen)
}

var roundTripperType = reflect.TypeFor[http.RoundTripper]()

// wayOut returns the field that a RoundTripper sends through: the only one
// whose type is a RoundTripper, and of several the one named Base or Transport,
// as golang.org/x/oauth2 and others name it. No other field is read: it may
// change while the RoundTripper is in use.
func wayOut(t reflect.Type) (field reflect.StructField, ok bool) {
	var fields []reflect.StructField
	for i := range t.NumField() {
		if f := t.Field(i); f.Type.Implements(roundTripperType) {
			fields = append(fields, f)
		}
	}
	if len(fields) == 1 {
		return fields[0], fields[0].IsExported()
	}
	for _, f := range fields {
		if f.Name == "Base" || f.Name == "Transport" {
			return f, true
		}
	}
	return field, false
}

type waitingKey struct{}

// WithWaiting returns a copy of an attempt's context from which Waiting returns
// waiting.
func WithWaiting(ctx, waiting context.Context) context.Context {
	return context.WithValue(ctx, waitingKey{}, waiting)
}

// Waiting returns the context for a wait in a Prepare hook, which the deprecated
// Request.Cancel ends too. ctx is that of the request.
func Waiting(ctx context.Context) context.Context {
	if waiting, ok := ctx.Value(waitingKey{}).(context.Context); ok {
		return waiting
	}
	return ctx
}
