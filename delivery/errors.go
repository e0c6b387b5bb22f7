package delivery

import (
	"errors"
	"strings"
)

// errNoFolder is the error of a folder that was not named, as where the variable
// that should have its name is not set.
var errNoFolder = errors.New(`the folder is ""; it must be a path`)

// named joins errs, each with name in front of its text.
func named(name string, errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, &renamedError{name, "", err})
		}
	}
	return errors.Join(all...)
}

// unnamed is err without the name of this package, for an error that has it
// already.
func unnamed(err error) error { return &renamedError{"", "delivery: ", err} }

// A renamedError has another prefix than the error that it wraps.
type renamedError struct {
	prefix, without string
	err             error
}

func (e *renamedError) Error() string {
	return e.prefix + strings.TrimPrefix(e.err.Error(), e.without)
}

func (e *renamedError) Unwrap() error { return e.err }
