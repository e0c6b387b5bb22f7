package replay

import (
	"bytes"
	"io"
	"strings"
)

// A Memory is a copy of a reader that is in memory, as it was before its first
// Read. What it opens is independent of that reader, which GetBody need not be:
// it may rewind the one that an attempt still reads. The zero Memory has no
// reader.
type Memory struct {
	form memoryForm
	data bytes.Reader
	text strings.Reader
}

type memoryForm uint8

const (
	notInMemory memoryForm = iota
	inBytes
	inString
)

// Remember makes m a copy of body and reports true, if that is a bytes.Buffer,
// bytes.Reader or strings.Reader, or an io.NopCloser of one, as http.NewRequest
// makes it. It allocates nothing.
func (m *Memory) Remember(body io.Reader) bool {
	switch r := unwrap(body).(type) {
	case *bytes.Buffer:
		m.form = inBytes
		m.data.Reset(r.Bytes())
	case *bytes.Reader:
		m.form, m.data = inBytes, *r
	case *strings.Reader:
		m.form, m.text = inString, *r
	default:
		return false
	}
	return true
}

// InMemory reports whether Remember would report true. No Read of such a body
// hangs.
func InMemory(body io.Reader) bool { return new(Memory).Remember(body) }

func (m *Memory) known() bool { return m.form != notInMemory }

// open returns a reader of its own, of all that the first attempt sends.
func (m *Memory) open() io.Reader {
	if m.form == inString {
		text := m.text
		return &text
	}
	data := m.data
	return &data
}

// reopen is the GetBody of an attempt's request.
func (m *Memory) reopen() (io.ReadCloser, error) { return io.NopCloser(m.open()), nil }
