package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"

	"example.com/awsretry/cmd/awsretry/internal/regular"
	"example.com/awsretry/delivery"
)

// A policyFile is a delivery policy and what to call it.
type policyFile struct {
	name   string
	policy *delivery.Policy // with every default filled in
	raw    bool             // its content type is for raw message delivery alone
}

// readPolicy reads a subscription's policy or a topic's, from standard input where path is -. A topic's is known by its
// attribute http, or because it is said to be one.
func readPolicy(path string, topic bool, stdin io.Reader) (policyFile, error) {
	file := policyFile{name: path}
	data, err := file.read(path, stdin)
	if err != nil {
		return file, err
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, which is no part of line 1
	if err := file.parse(data, topic || isTopic(data)); err != nil {
		return file, policyFaults(file.name, data, err)
	}
	return file, nil
}

func (f *policyFile) read(path string, stdin io.Reader) ([]byte, error) {
	if path == "-" {
		f.name = "standard input"
		return regular.ReadFrom(stdin, f.name)
	}
	data, err := regular.Read(path)
	if errors.Is(err, regular.ErrNotRegular) {
		err = fmt.Errorf("%w, or - for standard input", err)
	}
	return data, err
}

// parse fills in policy and raw.
func (f *policyFile) parse(data []byte, topic bool) error {
	if topic {
		t, err := delivery.ParseTopic(data)
		f.policy = delivery.Effective(t, nil)
		return err
	}
	p, err := delivery.Parse(data)
	if err != nil {
		return err
	}
	f.policy = delivery.Effective(nil, p)
	f.raw = p.Validate(false) != nil
	if f.raw {
		return p.Validate(true)
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

// policyFaults says where each fault is.
func policyFaults(name string, data []byte, err error) error {
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		before := string(data[:min(max(int(syntax.Offset)-1, 0), len(data))])
		line, column := strings.Count(before, "\n")+1, len([]rune(before[strings.LastIndex(before, "\n")+1:]))+1
		return fmt.Errorf("%s:%d:%d: not JSON: %w", name, line, column, syntax)
	}
	faults := errorsOf(err)
	if len(faults) == 1 {
		return fmt.Errorf("%s: %w", name, plainError(faults[0]))
	}
	text := fmt.Sprintf("%s has %d faults:", name, len(faults))
	for _, fault := range faults {
		text += "\n  " + plainError(fault).Error()
	}
	return errors.New(text)
}
