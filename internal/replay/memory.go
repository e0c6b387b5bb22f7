package replay

import (
	"bytes"
	"io"
	"strings"
)

// A Memory is a copy of an in-memory reader from before its first Read. The readers
// that it opens are independent of that reader, unlike those of a GetBody that
// rewinds a reader that an attempt still uses. The zero Memory has no reader.
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

// Remember makes m a copy of body, and reports true, if body is a bytes.Buffer, a
// bytes.Reader, a strings.Reader, or one of these in an io.NopCloser, as
// http.NewRequest makes it. It does not allocate.
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
// hangs. InMemory may be called during a Read.
func InMemory(body io.Reader) bool {
	switch unwrap(body).(type) {
	case *bytes.Buffer, *bytes.Reader, *strings.Reader:
		return true
	}
	return false
}

func (m *Memory) known() bool { return m.form != notInMemory }

// open returns an independent reader of all that the first attempt sends.
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
