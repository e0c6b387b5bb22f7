package main

import "testing"

// Each call has the requests and the response of its kind, the first time and later.
func TestWalks(t *testing.T) {
	for _, w := range walks {
		var calls []string
		err := w.run(func() error { return nil }, func(call string) error {
			calls = append(calls, call)
			return nil
		})
		if err != nil || len(calls) != 2 {
			t.Errorf("%s: %v after %q", w.name, err, calls)
		}
	}
}
