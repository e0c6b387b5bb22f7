// Package invalid names the fields of configurations that are not valid.
package invalid

import "errors"

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
