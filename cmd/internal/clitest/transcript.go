package clitest

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"example.com/awsretry/cmd/internal/cli"
)

// Transcript runs the command lines of a file in testdata, which begin with a
// dollar sign, and compares what they print with the rest of the file. -update
// rewrites that. An argument may be a Go string in quotes, NAME=VALUE before the
// command sets an environment variable, and <TEXT is the standard input.
//
//	$ AWS_RETRY_MODE=legacy get -H "Accept: */*" http://127.0.0.1:1/ <text
//
// Both the command lines and the file have $NAME for the value of each of vars,
// and $HOME for the home directory, which is empty.
func (s Shell) Transcript(t *testing.T, name string, vars map[string]string, commands ...cli.Command) {
	t.Helper()
	home := t.TempDir()
	s.Env = maps.Clone(s.Env)
	if s.Env == nil {
		s.Env = make(map[string]string)
	}
	s.Env["HOME"] = home
	program := program(t, commands...)
	before, after := []string{"$HOME", home}, []string{home, "$HOME"}
	for name, value := range vars {
		before, after = append(before, "$"+name, value), append(after, value, "$"+name)
	}
	var all strings.Builder
	for line := range strings.Lines(string(Must[[]byte](t)(os.ReadFile(filepath.Join("testdata", name))))) {
		if typed, ok := strings.CutPrefix(line, "$ "); ok {
			shell, args := s.parse(t, strings.NewReplacer(before...).Replace(typed))
			got := shell.RunProgram(t.Context(), t, program, args...)
			if got.Out != "" && !strings.HasSuffix(got.Out, "\n") {
				got.Out += "\n"
			}
			fmt.Fprintf(&all, "%s%s%s[%d]\n", line, got.Out, got.Err, got.Status)
		} else if strings.HasPrefix(line, "#") {
			all.WriteString(line)
		}
	}
	printed := strings.NewReplacer(after...).Replace(all.String())
	if s.Mask != nil {
		printed = s.Mask(printed)
	}
	Golden(t, name, printed)
}

// parse returns the shell and the arguments of a command line.
func (s Shell) parse(t *testing.T, line string) (Shell, []string) {
	t.Helper()
	s.Env = maps.Clone(s.Env)
	var args []string
	for line = strings.TrimSpace(line); line != ""; line = strings.TrimSpace(line) {
		var word string
		rest, isInput := strings.CutPrefix(line, "<")
		if quoted, err := strconv.QuotedPrefix(rest); err == nil {
			word, line = Must[string](t)(strconv.Unquote(quoted)), rest[len(quoted):]
		} else {
			word, line, _ = strings.Cut(rest, " ")
		}
		name, value, isVariable := strings.Cut(word, "=")
		switch {
		case isInput:
			s.In = strings.NewReader(word)
		case isVariable && len(args) == 0:
			s.Env[name] = value
		default:
			args = append(args, word)
		}
	}
	return s, args
}
