package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
)

// errNoStore means that there is no server to start.
var errNoStore = errors.New("neither valkey-server nor redis-server is in PATH")

// A store is a server at a Unix socket.
type store struct {
	folder, socket string
	server         *exec.Cmd
	client         *redis.Client
}

func startStore() (*store, error) {
	path, err := exec.LookPath("valkey-server")
	if err != nil {
		path, err = exec.LookPath("redis-server")
	}
	if err != nil {
		return nil, errNoStore
	}
	folder, err := os.MkdirTemp("", "store")
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(folder, "socket")
	s := &store{
		folder: folder, socket: socket, client: redis.NewClient(&redis.Options{Network: "unix", Addr: socket}),
		server: exec.Command(path, "--port", "0", "--unixsocket", socket, "--dir", folder, "--save", ""),
	}
	if err = s.server.Start(); err == nil {
		err = fmt.Errorf("%s does not listen", path)
		for range 3000 {
			if conn, failure := net.Dial("unix", socket); failure == nil {
				return s, conn.Close()
			}
			time.Sleep(10 * time.Millisecond)
		}
	}
	s.close()
	return nil, err
}

func (s *store) close() {
	_ = s.client.Close()
	if s.server.Process != nil {
		_ = s.server.Process.Kill()
		_ = s.server.Wait()
	}
	_ = os.RemoveAll(s.folder)
}

// empty removes what the store has.
func (s *store) empty(ctx context.Context) error {
	return errors.Join(s.client.FlushAll(ctx).Err(), s.client.ScriptFlush(ctx).Err())
}

// scripts returns how many scripts the store has run.
func (s *store) scripts(ctx context.Context) (int, error) {
	text, err := s.client.Info(ctx, "commandstats").Result()
	sum := 0
	for line := range strings.Lines(text) {
		if name, rest, ok := strings.Cut(line, ":calls="); ok && strings.HasPrefix(name, "cmdstat_eval") {
			calls, _, _ := strings.Cut(rest, ",")
			n, _ := strconv.Atoi(calls)
			sum += n
		}
	}
	return sum, err
}
