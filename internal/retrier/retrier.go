// Package retrier is what the RoundTrippers of this repository that retry agree
// on: none is the Base of another, and which methods are for this repository alone.
package retrier

import (
	"fmt"
	"net/http"
	"reflect"
)

// A Retrier is a RoundTripper that retries, or may send through one that does.
// Only packages of this repository can implement it.
type Retrier interface {
	// Retries reports whether requests are retried.
	Retries(Seal) bool
}

// A Seal is a parameter of exported methods that other repositories can neither call
// nor implement.
type Seal struct{}

// Always is a Retrier's method that is embedded.
type Always struct{}

// Retries returns true.
func (Always) Retries(Seal) bool { return true }

// Retries reports whether rt is a Retrier that retries.
func Retries(rt http.RoundTripper) bool {
	r, ok := rt.(Retrier)
	return ok && r.Retries(Seal{})
}

// CheckBase returns an error that begins with name if base is not valid as the
// Base of a RoundTripper that retries. A nil base is valid: it means the
// default. A RoundTripper of another repository that sends through a Retrier is
// not recognized.
func CheckBase(name string, base http.RoundTripper) error {
	switch {
	case IsNil(base):
		return fmt.Errorf("%s is a nil %T; it must be a usable RoundTripper, or nil for the shared default", name, base)
	case Retries(base):
		return fmt.Errorf("%s is, or sends through, another awsretry.Transport or a delivery.Transport; "+
			"retries of retries multiply, so there must be one alone", name)
	}
	return nil
}

// IsNil reports whether v holds a nil pointer, function or map.
func IsNil(v any) bool {
	switch r := reflect.ValueOf(v); r.Kind() {
	case reflect.Pointer, reflect.Func, reflect.Map:
		return r.IsNil()
	}
	return false
}
