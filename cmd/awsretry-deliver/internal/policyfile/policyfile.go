// Package policyfile reads the delivery policy that a user names, and reports its
// faults with their positions.
package policyfile

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.com/awsretry/delivery"
	"example.com/awsretry/internal/regularfile"
)

// A File is a delivery policy and its name.
type File struct {
	Name   string
	Policy *delivery.Policy // with every default filled in
	Raw    bool             // its content type is for raw message delivery only
}

// Read reads the policy of a subscription or of a topic, from stdin if path is
// -. A topic's policy has the attribute http.
func Read(path string, stdin io.Reader) (File, error) {
	file := File{Name: path}
	data, err := file.read(path, stdin)
	if err != nil {
		return file, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark does not count in a line
	if err := file.parse(data); err != nil {
		return file, faults(file.Name, data, err)
	}
	return file, nil
}

func (f *File) read(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		f.Name = "standard input"
		return regularfile.ReadFrom(stdin, f.Name)
	}
	data, err := regularfile.Read(path)
	if errors.Is(err, regularfile.ErrNotRegular) {
		err = fmt.Errorf("%w, or - for standard input", err)
	}
	return data, err
}

// parse sets Policy and Raw.
func (f *File) parse(data []byte) error {
	if isTopic(data) {
		t, err := delivery.ParseTopic(data)
		f.Policy = delivery.Effective(t, nil)
		return err
	}
	p, err := delivery.Parse(data)
	if err != nil {
		return err
	}
	f.Policy = delivery.Effective(nil, p)
	f.Raw = p.ValidateWrapped() != nil
	if f.Raw {
		return p.ValidateRaw()
	}
	return nil
}

func isTopic(data []byte) bool {
	var top map[string]json.RawMessage
	if json.Unmarshal(data, &top) != nil {
		return false
	}
	_, ok := top["http"]
	return ok
}

// faults returns err with the position of each fault.
func faults(name string, data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := string(data[:min(max(int(syntax.Offset)-1, 0), len(data))])
		line := strings.Count(before, "\n") + 1
		column := len([]rune(before[strings.LastIndex(before, "\n")+1:])) + 1
		return fmt.Errorf("%s:%d:%d: not JSON: %w", name, line, column, syntax)
	}
	joined, ok := err.(interface{ Unwrap() []error })
	if !ok || len(joined.Unwrap()) == 1 {
		return fmt.Errorf("%s: %w", name, err)
	}
	text := fmt.Sprintf("%s has %d faults:", name, len(joined.Unwrap()))
	for _, fault := range joined.Unwrap() {
		text += "\n  " + fault.Error()
	}
	return errors.New(text)
}
