package clitest

import (
	"strings"
	"sync"

	"example.com/awsretry/internal/httpfake"
)

// A Watch is a writer that calls a function once, when what was written has a
// text in it.
type Watch struct {
	httpfake.Buffer
	text string
	f    func()
	once sync.Once
}

// NewWatch returns a writer that calls f when text has been written.
func NewWatch(text string, f func()) *Watch { return &Watch{text: text, f: f} }

func (w *Watch) Write(p []byte) (int, error) {
	n, err := w.Buffer.Write(p)
	if strings.Contains(w.String(), w.text) {
		w.once.Do(w.f)
	}
	return n, err
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
