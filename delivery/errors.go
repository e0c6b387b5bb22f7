package delivery

import (
	"errors"
	"strings"
)

// errNoFolder is the error of a folder without a name, as from a variable that
// is not set.
var errNoFolder = errors.New(`the folder is ""; it must be a path`)

// named joins errs, each with name before its text.
func named(name string, errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, &renamedError{name, "", err})
		}
	}
	return errors.Join(all...)
}

// unnamed returns err without the name of this package, for an error that has
// it already.
func unnamed(err error) error { return &renamedError{"", "delivery: ", err} }

// A renamedError is err with another prefix.
type renamedError struct {
	prefix, without string
	err             error
}

func (e *renamedError) Error() string {
	return e.prefix + strings.TrimPrefix(e.err.Error(), e.without)
}

func (e *renamedError) Unwrap() error { return e.err }
