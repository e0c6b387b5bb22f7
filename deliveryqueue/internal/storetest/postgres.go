// Package storetest starts a PostgreSQL server for tests, in a folder of its own
// and on loopback.
package storetest

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"
)

// ErrMissing is the error of Start if there is no PostgreSQL on the machine, or
// no user that it could run as.
var ErrMissing = errors.New("initdb and postgres are neither in PATH nor in /usr/lib/postgresql")

// A Server is a running server.
type Server struct {
	port int
	dir  string
	cmd  *exec.Cmd
	stop io.Closer
	log  *lockedBuffer
}

// Start starts a server. The process ends with the test's own, however that
// ends.
func Start() (*Server, error) {
	initdb, postgres := find("initdb"), find("postgres")
	if initdb == "" || postgres == "" {
		return nil, ErrMissing
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "deliveryqueue-postgres-")
	if err != nil {
		return nil, err
	}
	s, err := start(initdb, postgres, dir, as)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, nil
}

func start(initdb, postgres, dir string, as user) (*Server, error) {
	if err := as.own(dir); err != nil {
		return nil, err
	}
	data := filepath.Join(dir, "data")
	cmd := exec.Command(initdb, "-D", data, "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync")
	as.run(cmd, dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("initdb: %w\n%s", err, out)
	}
	port, err := freePort()
	if err != nil {
		return nil, err
	}
	s := &Server{port: port, dir: dir, log: new(lockedBuffer)}
	// The shell stops the server when its standard input ends, as it does when
	// this process ends.
	s.cmd = exec.Command("/bin/sh", "-c", `"$@" </dev/null & pid=$!; read _; kill -INT $pid; wait $pid`, "sh",
		postgres, "-D", data, "-k", dir, "-h", "127.0.0.1", "-p", fmt.Sprint(port), "-F", "-c", "max_connections=200")
	as.run(s.cmd, dir)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	if s.stop, err = s.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	if err := s.cmd.Start(); err != nil {
		return nil, err
	}
	return s, s.wait()
}

// wait waits until the server accepts connections.
func (s *Server) wait() error {
	for range 1200 {
		if strings.Contains(s.log.String(), "ready to accept connections") {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("postgres does not accept connections:\n%s", s.log), s.Stop())
}

// URL returns the URL of a database.
func (s *Server) URL(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// Stop stops the server and deletes its folder.
func (s *Server) Stop() error {
	s.stop.Close()
	err := s.cmd.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}

// find returns the path of a program of PostgreSQL, "" if it is missing.
func find(program string) string {
	// Debian keeps it out of PATH, with a folder for each version.
	paths, _ := filepath.Glob("/usr/lib/postgresql/*/bin/" + program)
	if len(paths) > 0 {
		return slices.Max(paths)
	}
	path, err := exec.LookPath(program)
	if err != nil {
		return ""
	}
	return path
}

// freePort returns a port on which nothing listens. The system does not give it
// to outgoing connections before the server is started.
func freePort() (port int, err error) {
	for range 100 {
		port = 30000 + rand.N(2700)
		var l net.Listener
		if l, err = net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return port, l.Close()
		}
	}
	return 0, err
}

// A lockedBuffer is safe for concurrent use.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}
