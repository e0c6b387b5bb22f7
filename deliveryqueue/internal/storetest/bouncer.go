package storetest

import (
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// ErrNoBouncer is the error of Bouncer if there is no PgBouncer on the machine.
var ErrNoBouncer = errors.New("pgbouncer is not in PATH")

// Bouncer starts a PgBouncer in transaction mode before the server, on loopback.
// It returns the URL of a database through it. stop stops it.
func (s *Server) Bouncer(database string) (url string, stop func(), err error) {
	program, err := exec.LookPath("pgbouncer")
	if err != nil {
		return "", nil, ErrNoBouncer
	}
	port, err := freePort()
	if err != nil {
		return "", nil, err
	}
	config := filepath.Join(s.dir, "pgbouncer.ini")
	if err := os.WriteFile(config, fmt.Appendf(nil, `[databases]
* = host=127.0.0.1 port=%d user=postgres
[pgbouncer]
listen_addr = 127.0.0.1
listen_port = %d
unix_socket_dir =
auth_type = any
pool_mode = transaction
server_round_robin = 1
`, s.port, port), 0o644); err != nil {
		return "", nil, err
	}
	cmd := exec.Command("/bin/sh", "-c", `"$@" </dev/null & pid=$!; read end; kill -TERM $pid; kill -QUIT $pid; wait $pid`,
		"sh", program, config)
	s.as.run(cmd, s.dir)
	in, err := cmd.StdinPipe()
	if err != nil {
		return "", nil, err
	}
	if err := cmd.Start(); err != nil {
		return "", nil, err
	}
	stop = func() {
		in.Close()
		_ = cmd.Wait()
	}
	address := fmt.Sprintf("127.0.0.1:%d", port)
	for range 200 {
		conn, err := net.Dial("tcp", address)
		if err == nil {
			return fmt.Sprintf("postgres://postgres@%s/%s?sslmode=disable", address, database), stop, conn.Close()
		}
		time.Sleep(50 * time.Millisecond)
	}
	stop()
	return "", nil, fmt.Errorf("pgbouncer does not listen on %s", address)
}
