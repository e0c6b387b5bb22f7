package replay

import (
	"bytes"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// A sized has a size and ReadAt, but no Seek.
type sized struct {
	io.Reader
	io.ReaderAt
	size int64
}

func (s sized) Size() int64 { return s.size }

// A procFile has the size 0 in its directory, as the files of /proc do.
type procFile struct{ *strings.Reader }

func (procFile) Size(int)                   {} // hides that of the strings.Reader
func (procFile) Stat() (fs.FileInfo, error) { return emptyFile{}, nil }

type emptyFile struct{}

func (emptyFile) Name() string       { return "status" }
func (emptyFile) Size() int64        { return 0 }
func (emptyFile) Mode() fs.FileMode  { return 0o444 }
func (emptyFile) ModTime() time.Time { return time.Time{} }
func (emptyFile) IsDir() bool        { return false }
func (emptyFile) Sys() any           { return nil }

func TestSection(t *testing.T) {
	const data = "0123456789"
	name := filepath.Join(t.TempDir(), "body")
	if err := os.WriteFile(name, []byte(data), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	file.Seek(4, io.SeekStart)
	folder, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer folder.Close()
	behind := strings.NewReader(data)
	behind.Seek(20, io.SeekStart)
	unseekable := sized{strings.NewReader(data), strings.NewReader(data), 10}

	tests := []struct {
		name   string
		body   io.Reader
		length int64
		want   string
		none   bool
	}{
		{name: "strings.Reader", body: strings.NewReader(data), length: 10, want: data},
		{name: "in a NopCloser", body: io.NopCloser(bytes.NewReader([]byte(data))), length: 10, want: data},
		{name: "file from its offset", body: file, length: -1, want: "456789"},
		{name: "offset after the end", body: behind, length: -1, want: ""},
		{name: "no Seek, as long as its size", body: unseekable, length: 10, want: data},
		{name: "no Seek, shorter", body: unseekable, length: 6, none: true},
		{name: "no Seek, unknown length", body: unseekable, length: -1, none: true},
		{name: "no ReadAt", body: bytes.NewBufferString(data), length: 10, none: true},
		{name: "wrapped", body: struct{ io.Reader }{strings.NewReader(data)}, length: 10, none: true},
		{name: "folder", body: folder, length: 10, none: true},
		{name: "size 0 on disk", body: procFile{strings.NewReader(data)}, length: -1, none: true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			section := sectionOf(tt.body, tt.length)
			if section == nil || tt.none {
				if (section == nil) != tt.none {
					t.Errorf("a section: %v", section != nil)
				}
				return
			}
			if got, err := io.ReadAll(section); string(got) != tt.want || err != nil {
				t.Errorf("read %q, %v; want %q", got, err, tt.want)
			}
		})
	}
}
