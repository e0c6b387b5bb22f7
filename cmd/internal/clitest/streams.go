package clitest

import (
	"strings"
	"sync"
)

// A Watch is a writer that calls a function once, when what was written has a
// text in it.
type Watch struct {
	text string
	f    func()

	mu      sync.Mutex // guards written
	written strings.Builder
	once    sync.Once
}

// NewWatch returns a writer that calls f when text has been written.
func NewWatch(text string, f func()) *Watch { return &Watch{text: text, f: f} }

func (w *Watch) Write(p []byte) (int, error) {
	w.mu.Lock()
	w.written.Write(p)
	seen := strings.Contains(w.written.String(), w.text)
	w.mu.Unlock()
	if seen {
		w.once.Do(w.f)
	}
	return len(p), nil
}

// String returns what was written.
func (w *Watch) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.written.String()
}

// Stuck blocks forever, like a terminal without input or a pipe without a
// reader. It calls Began when it begins to block.
type Stuck struct{ Began func() }

func (s *Stuck) Read([]byte) (int, error) {
	s.Began()
	select {}
}

func (s *Stuck) Write([]byte) (int, error) {
	s.Began()
	select {}
}
