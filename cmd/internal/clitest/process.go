package clitest

import (
	"os"
	"os/exec"
	"strings"
	"testing"
)

const processVariable = "AWSRETRY_TEST_PROCESS"

// Main is for TestMain. It runs the tests and, in the processes that Process
// starts, the program.
func Main(m *testing.M, name string, program func()) {
	if args, ok := os.LookupEnv(processVariable); ok {
		os.Args = append([]string{name}, strings.Split(args, "\n")...)
		program()
	}
	os.Exit(m.Run())
}

// Process returns the program in its own process. If before is not empty, that
// command line starts the program.
func Process(t *testing.T, before []string, args ...string) *exec.Cmd {
	t.Helper()
	line := append(before, os.Args[0])
	cmd := exec.CommandContext(t.Context(), line[0], line[1:]...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), processVariable+"="+strings.Join(args, "\n"))
	return cmd
}
