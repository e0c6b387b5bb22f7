package deliveryqueue

import (
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
	"time"

	"example.com/awsretry/internal/httpfake"
)

// errNoPostgres is the error of startServer if there is no PostgreSQL on the
// machine, or no user that it could run as.
var errNoPostgres = errors.New("initdb and postgres are neither in PATH nor in /usr/lib/postgresql")

// A server is a running PostgreSQL server on loopback.
type server struct {
	port     int
	dir      string
	postgres string // the program
	as       serverUser

	cmd  *exec.Cmd
	stop io.WriteCloser
	log  *httpfake.Buffer
}

// startServer starts a server. The server stops and its folder is deleted when the
// test process ends, even if it is killed.
func startServer() (*server, error) {
	initdb, postgres := findProgram("initdb"), findProgram("postgres")
	if initdb == "" || postgres == "" {
		return nil, errNoPostgres
	}
	as, err := unprivileged()
	if err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "deliveryqueue-postgres-")
	if err != nil {
		return nil, err
	}
	s := &server{dir: dir, postgres: postgres, as: as}
	if err := s.init(initdb); err != nil {
		return nil, errors.Join(err, os.RemoveAll(dir))
	}
	return s, s.run()
}

func (s *server) data() string { return filepath.Join(s.dir, "data") }

func (s *server) init(initdb string) error {
	if err := s.as.own(s.dir); err != nil {
		return err
	}
	cmd := exec.Command(initdb, "-D", s.data(), "-U", "postgres", "-A", "trust", "-E", "UTF8", "--no-locale", "--no-sync", "--wal-segsize=1")
	s.as.run(cmd, s.dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("initdb: %w\n%s", err, out)
	}
	// Not on the command line, which a benchmark could not overrule.
	if err := os.WriteFile(filepath.Join(s.data(), "postgresql.auto.conf"), []byte("fsync = off\n"), 0o600); err != nil {
		return err
	}
	var err error
	s.port, err = freePort()
	return err
}

// script runs the server until its standard input ends, as it does when this
// process is killed.
const script = `
dir=$1; shift
"$@" </dev/null & pid=$!
read end
kill -INT $pid; wait $pid; rm -rf "$dir"`

func (s *server) run() error {
	s.log = new(httpfake.Buffer)
	s.cmd = exec.Command("/bin/sh", "-c", script, "sh", s.dir,
		s.postgres, "-D", s.data(), "-k", s.dir, "-h", "127.0.0.1", "-p", fmt.Sprint(s.port),
		"-c", "max_connections=200")
	s.as.run(s.cmd, s.dir)
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	var err error
	if s.stop, err = s.cmd.StdinPipe(); err != nil {
		return err
	}
	if err := s.cmd.Start(); err != nil {
		return err
	}
	return s.wait()
}

// wait waits until the server accepts connections.
func (s *server) wait() error {
	for range 1200 {
		if strings.Contains(s.log.String(), "ready to accept connections") {
			return nil
		}
		time.Sleep(50 * time.Millisecond)
	}
	return errors.Join(fmt.Errorf("postgres does not accept connections:\n%s", s.log), s.stopServer())
}

// url returns the URL of a database.
func (s *server) url(database string) string {
	return fmt.Sprintf("postgres://postgres@127.0.0.1:%d/%s?sslmode=disable", s.port, database)
}

// stopServer stops the server and deletes its folder.
func (s *server) stopServer() error {
	s.stop.Close()
	err := s.cmd.Wait()
	return errors.Join(err, os.RemoveAll(s.dir))
}

// findProgram returns the path of a program of PostgreSQL, "" if it is missing.
func findProgram(program string) string {
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
