package deliveryqueue

import (
	"errors"
	"math"
	"reflect"
	"testing"
	"time"
)

// A dead letter whose deadline has passed is redriven only with a new one, and
// keeps the record of its attempts until then.
func TestRedriveAfterTheDeadline(t *testing.T) {
	t.Parallel()
	onEach(t, func(t *testing.T, store string) {
		end := newEndpoint(t, 400)
		q := open(t, store, Config{})
		passed := enqueue(t, q, post(t, end.URL, "passed"), Options{Deadline: time.Now().Add(time.Minute)})
		for _, deadline := range []time.Time{{}, time.Now().Add(time.Hour)} {
			enqueue(t, q, post(t, end.URL, "open"), Options{Deadline: deadline})
		}
		stop := start(t, q)
		waitFor(t, q, Stats{Dead: 3})
		stop()
		past := `jsonb_set(args, '{deadline}', '1')`
		if q.store.sqlite {
			past = `jsonb_patch(args, '{"deadline": 1}')`
		}
		setJob(t, q, passed, `args = `+past)
		before := get(t, q, passed)
		n, err := q.Redrive(t.Context(), Filter{})
		var refused *DeadlinePassedError
		if n != 2 || !errors.As(err, &refused) || refused.N != 1 {
			t.Errorf("%d are redriven: %v", n, err)
		}
		if d := get(t, q, passed); !reflect.DeepEqual(d, before) || d.Attempts != 1 {
			t.Errorf("%+v, want %+v", d, before)
		}
		if n, err := q.RedriveUntil(t.Context(), Filter{}, time.Now().Add(-time.Second)); n != 0 || err == nil {
			t.Errorf("%d are redriven until a second ago: %v", n, err)
		}
		end.respond(200)
		if n, err := q.RedriveUntil(t.Context(), Filter{}, time.Now().Add(time.Hour)); n != 1 || err != nil {
			t.Errorf("%d are redriven: %v", n, err)
		}
		start(t, q)
		waitFor(t, q, Stats{Delivered: 3})
	})
}

// A deadline that cannot be stored is an error, and a distant deadline has not
// passed.
func TestDeadlinesThatAreFar(t *testing.T) {
	t.Parallel()
	end := newEndpoint(t, 200)
	q := open(t, newSQLite(t), Config{})
	for _, far := range []time.Time{time.Unix(1<<60, 0), time.Unix(math.MaxInt64, 0), time.Unix(maxDeadline+1, 0)} {
		if _, err := q.Enqueue(t.Context(), post(t, end.URL, "hello"), Options{Deadline: far}); err == nil {
			t.Errorf("%v is taken", far)
		}
	}
	for _, deadline := range []time.Time{
		time.Unix(maxDeadline, 0), time.Date(1, 1, 1, 0, 0, 0, 1, time.UTC), time.Unix(math.MinInt64/2, 0),
	} {
		enqueue(t, q, post(t, end.URL, "hello"), Options{Deadline: deadline})
	}
	start(t, q)
	waitFor(t, q, Stats{Delivered: 1, Dead: 2})
}
