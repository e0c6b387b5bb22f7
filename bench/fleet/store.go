package main

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoStore means that there is no server to start.
var errNoStore = errors.New("neither valkey-server nor redis-server is in PATH")

// A store is a server that can be stopped and suspended.
type store struct {
	addr, folder string
	server       *exec.Cmd // nil while it is stopped
}

func newStore() (*store, error) {
	addr, err := freeAddr()
	if err != nil {
		return nil, err
	}
	folder, err := os.MkdirTemp("", "store")
	if err != nil {
		return nil, err
	}
	s := &store{addr: addr, folder: folder}
	if err := s.start(); err != nil {
		s.close()
		return nil, err
	}
	return s, nil
}

// freeAddr returns a loopback address where nothing listens, another one each
// time. The system does not give its port to outgoing connections while nothing
// does.
func freeAddr() (string, error) {
	for range 100 {
		port := 20000 + int(firstPort+ports.Add(1))%10000
		listener, err := net.ListenTCP("tcp", &net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port})
		if err == nil {
			return listener.Addr().String(), listener.Close()
		}
	}
	return "", errors.New("no free port")
}

var (
	firstPort = rand.Int64N(10000)
	ports     atomic.Int64 // that were tried
)

func (s *store) start() error {
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		path, err = exec.LookPath("redis-server")
	}
	if err != nil {
		return errNoStore
	}
	_, port, _ := net.SplitHostPort(s.addr)
	s.server = exec.Command(path, "--port", port, "--bind", "127.0.0.1", "--dir", s.folder, "--save", "")
	if err := s.server.Start(); err != nil {
		return err
	}
	for range 3000 {
		if conn, err := net.Dial("tcp", s.addr); err == nil {
			return conn.Close()
		}
		time.Sleep(10 * time.Millisecond)
	}
	return fmt.Errorf("no store at %s", s.addr)
}

func (s *store) stop() {
	if s.server != nil && s.server.Process != nil {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	}
	s.server = nil
}

func (s *store) signal(sig os.Signal) error { return s.server.Process.Signal(sig) }

func (s *store) close() {
	s.stop()
	_ = os.RemoveAll(s.folder)
}

// scripts returns how many scripts the store has run since it started.
func (s *store) scripts(ctx context.Context) (int, error) {
	client := redis.NewClient(&redis.Options{Addr: s.addr})
	defer client.Close()
	text, err := client.Info(ctx, "commandstats").Result()
	if err != nil {
		return 0, err
	}
	sum := 0
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(name, "cmdstat_eval") {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(calls)
			sum += n
		}
	}
	return sum, nil
}
