package httpfake

import (
	"strings"
	"sync"
)

// A Buffer has what was written to it. It is safe for concurrent use.
type Buffer struct {
	mu   sync.Mutex
	text strings.Builder // guarded by mu
}

// Write appends p.
func (b *Buffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

// String returns what was written.
func (b *Buffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}
