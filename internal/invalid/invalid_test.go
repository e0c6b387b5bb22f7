package invalid

import (
	"errors"
	"io"
	"testing"
)

// Each of several errors is named, and still found.
func TestWithin(t *testing.T) {
	field := &Field{"outer: Transport.", errors.New("Mode is 1")}
	err := Within("pkg: Config.", errors.Join(field, errors.Join(io.EOF)))
	if want := "pkg: Config.Mode is 1\npkg: Config.EOF"; err == nil || err.Error() != want || !errors.Is(err, io.EOF) {
		t.Errorf("got %v, want %q, which wraps io.EOF", err, want)
	}
	if err := Within("pkg: ", nil); err != nil {
		t.Errorf("got %v of no error", err)
	}
}
