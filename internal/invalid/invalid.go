// Package invalid names the fields of configurations that are not valid.
package invalid

import (
	"errors"
	"fmt"
)

// A Field is the error of a field of the configuration In, such as "awsretry:
// Transport.". Err begins with the field's name.
type Field struct {
	In  string
	Err error
}

func (f *Field) Error() string { return f.In + f.Err.Error() }

// Unwrap returns Err.
func (f *Field) Unwrap() error { return f.Err }

// Within returns err with in as the configuration of its fields. It may be nil,
// one error, or several that are joined.
func Within(in string, err error) error {
	switch e := err.(type) {
	case nil:
		return nil
	case *Field:
		err = e.Err
	case interface{ Unwrap() []error }:
		var all []error
		for _, err := range e.Unwrap() {
			all = append(all, Within(in, err))
		}
		return errors.Join(all...)
	}
	return &Field{in, err}
}

// Check returns nil if ok is true, and otherwise the error of the field, with its
// value and what is allowed.
func Check(ok bool, field string, value any, allowed string, args ...any) error {
	if ok {
		return nil
	}
	return fmt.Errorf("%s is %v; it must be %s", field, value, fmt.Sprintf(allowed, args...))
}
