//go:build unix

package storetest

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"
)

const child = "STORETEST_CHILD"

func TestMain(m *testing.M) {
	if os.Getenv(child) != "" {
		s, err := Start()
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		fmt.Printf("running 127.0.0.1:%d %s\n", s.port, s.dir)
		time.Sleep(time.Minute) // the test kills this process
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// No server outlives a test process that is killed.
func TestServerEndsWithTheProcess(t *testing.T) {
	if _, err := unprivileged(); find("postgres") == "" || err != nil {
		t.Skip(errors.Join(ErrMissing, err))
	}
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), child+"=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	fields := strings.Fields(line)
	if err != nil || len(fields) != 3 || fields[0] != "running" {
		t.Fatalf("%q, %v", line, err)
	}
	address, dir := fields[1], fields[2]
	conn, err := net.Dial("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	conn.Close()

	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	cmd.Wait()
	defer os.RemoveAll(dir)
	for deadline := time.Now().Add(30 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			conn.Close()
		}
		_, gone := os.Stat(dir)
		if err != nil && errors.Is(gone, os.ErrNotExist) {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("the server is there: %v; its folder: %v", err == nil, gone)
		}
	}
}
