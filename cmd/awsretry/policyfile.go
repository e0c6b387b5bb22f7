package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"

	"example.com/awsretry/delivery"
)

// A policyFile is a delivery policy and what to call it.
type policyFile struct {
	name   string
	policy *delivery.Policy // with every default filled in
	raw    bool             // its content type is for raw message delivery alone
}

// maxPolicySize is far above what a policy needs.
const maxPolicySize = 1 << 20

// readPolicy reads a subscription's policy or a topic's, from standard input where path is -. A topic's is known by its
// attribute http, or because it is said to be one.
func readPolicy(path string, topic bool, stdin io.Reader) (policyFile, error) {
	file := policyFile{name: path}
	in := stdin
	if path == "-" {
		file.name = "standard input"
	} else {
		f, err := openRegular(path)
		if err != nil {
			return file, err
		}
		defer f.Close()
		in = f
	}
	data, err := io.ReadAll(io.LimitReader(in, maxPolicySize+1))
	switch {
	case err != nil:
		return file, fmt.Errorf("%s: %w", file.name, err)
	case len(data) > maxPolicySize:
		return file, fmt.Errorf("%s has more than %s; no delivery policy is that long", file.name, count(maxPolicySize, "byte"))
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff")) // a byte order mark, which is no part of line 1
	if err := file.parse(data, topic || isTopic(data)); err != nil {
		return file, policyFaults(file.name, data, err)
	}
	return file, nil
}

// openRegular opens a file that ends. Opening a FIFO alone may block for ever.
func openRegular(path string) (*os.File, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, fmt.Errorf("%s is a directory", path)
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%s is not a regular file; it must be one, or - for standard input", path)
	}
	return os.Open(path)
}

func (f *policyFile) parse(data []byte, topic bool) error {
	if topic {
		t, err := delivery.ParseTopic(data)
		if err == nil {
			err = t.Validate()
		}
		f.policy = delivery.Effective(t, nil)
		return err
	}
	p, err := delivery.Parse(data)
	if err == nil {
		err = p.Validate(true)
	}
	f.policy = delivery.Effective(nil, p)
	f.raw = err == nil && p.Validate(false) != nil
	return err
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
	faults := strings.Split(err.Error(), "\n")
	for i, fault := range faults {
		faults[i] = strings.TrimPrefix(fault, "delivery: ")
	}
	if len(faults) == 1 {
		return fmt.Errorf("%s: %s", name, faults[0])
	}
	return fmt.Errorf("%s has %d faults:\n  %s", name, len(faults), strings.Join(faults, "\n  "))
}
