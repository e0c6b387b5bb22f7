package waittest

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

func TestQueueRecordsEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		refused := errors.New("refused")
		q := NewQueue()
		q.Join(0, func() error { time.Sleep(2 * time.Second); return nil })
		q.Join(1, func() error { return refused })
		want := []End{{ID: 1, Err: refused}}
		if got := q.Ended(); !slices.Equal(got, want) {
			t.Errorf("at first %v have ended, want %v", got, want)
		}
		time.Sleep(time.Second)
		q.Join(2, func() error { time.Sleep(time.Second / 2); return nil })
		want = append(want, End{ID: 2, At: 3 * time.Second / 2}, End{ID: 0, At: 2 * time.Second})
		if got := q.Wait(); !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestInOrder(t *testing.T) {
	gone := errors.New("gone")
	for _, test := range []struct {
		name string
		ends []End
		want bool
	}{
		{"nobody", nil, true},
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
