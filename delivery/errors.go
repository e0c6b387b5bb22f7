package delivery

import (
	"errors"
	"fmt"
)

// named joins errs, each with name before its text.
func named(name string, errs ...error) error {
	var all []error
	for _, err := range errs {
		if err != nil {
			all = append(all, fmt.Errorf("%s%w", name, err))
		}
	}
	return errors.Join(all...)
}
