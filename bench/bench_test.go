package main

import (
	"testing"
)

// Each library sends the attempts of the case, each with the whole body, and no
// more.
func TestEveryLibraryDoesTheSame(t *testing.T) {
	for _, c := range cases {
		for _, lib := range libraries {
			if c.over(lib) == nil || lib.name == bareName {
				continue
			}
			t.Run(c.name+"/"+lib.name, func(t *testing.T) {
				testAttempts(t, c, func(s *stub) send { return c.over(lib)(s) })
			})
		}
	}
}

// testAttempts fails if a client makes other attempts than those of the case.
func testAttempts(t *testing.T, c benchCase, over func(*stub) send) {
	t.Helper()
	s, err := newStub(c, 1)
	if err != nil {
		t.Fatal(err)
	}
	send, x := over(s), &s.exchanges[0]
	for range 200 { // enough to empty a quota
		x.rewind()
		resp, err := send(x)
		if err != nil || resp.StatusCode != 200 {
			t.Fatal(resp, err)
		}
		resp.Body.Close()
		if x.sent != len(c.statuses) || x.received != len(c.payload) {
			t.Fatalf("%d attempts, the last with %d bytes; want %d with %d",
				x.sent, x.received, len(c.statuses), len(c.payload))
		}
	}
}

func TestStubDoesNotAllocate(t *testing.T) {
	for _, c := range cases {
		s, err := newStub(c, 1)
		if err != nil {
			t.Fatal(err)
		}
		x, send := &s.exchanges[0], through(s)
		if n := testing.AllocsPerRun(100, func() {
			for range len(c.statuses) {
				x.rewind()
				send(x)
			}
		}); n != 0 {
			t.Errorf("%s: the stub allocates %v times", c.name, n)
		}
	}
}
