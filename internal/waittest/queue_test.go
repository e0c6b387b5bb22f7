package waittest

import (
	"errors"
	"testing"
)

func TestInOrder(t *testing.T) {
	gone := errors.New("gone")
	for _, test := range []struct {
		name string
		ends []End
		want bool
	}{
		{"in order", []End{{0, 1, nil}, {3, 2, nil}, {5, 3, nil}}, true},
		{"one overtaken", []End{{0, 1, nil}, {5, 2, nil}, {3, 3, nil}}, false},
		{"at the same time", []End{{3, 1, nil}, {0, 1, nil}}, true},
		{"not served", []End{{5, 1, gone}, {0, 2, nil}, {3, 3, gone}}, true},
	} {
		if got := InOrder(test.ends); got != test.want {
			t.Errorf("%s: got %v, want %v", test.name, got, test.want)
		}
	}
}
