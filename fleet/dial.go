package fleet

import (
	"cmp"
	"context"
	"errors"
	"sync"
	"time"

	"github.com/valkey-io/valkey-go"
)

// A Connection is a Client of Valkey or Redis. [Dial] makes one.
type Connection struct {
	option valkey.ClientOption

	mu     sync.Mutex // guards the fields below
	last   *connecting
	closed bool
}

// A connecting is one attempt to connect.
type connecting struct {
	done   chan struct{} // closed when the fields below are set
	client valkeyClient
	err    error
}

// The defaults of Dial. A renewal waits at most one lease.
const (
	dialTimeout  = time.Second
	writeTimeout = 2 * time.Second
)

var errClosed = errors.New("fleet: the connection is closed")

// Dial returns a Client for a single server, servers that Sentinel watches or a
// cluster, as valkey.NewClient does. It does not connect: the Client connects in
// the background when it is first used, and again when it is used after a
// failure, which Config.OnError reports.
//
// The store's user needs the commands eval, evalsha, time, hmget, hset and
// pexpire, and access to the keys that begin with Config.Prefix. With Sentinel it
// also needs role, and in a cluster cluster|slots and cluster|shards. The
// sentinels' user needs sentinel|sentinels, sentinel|get-master-addr-by-name and,
// to learn of a failover at once, subscribe. For TLS, set option.TLSConfig.
//
// Some defaults differ from those of valkey.NewClient: Dialer.Timeout is 1 s,
// ConnWriteTimeout is 2 s, and each server gets one connection. Retries and
// client-side caching are disabled.
func Dial(option valkey.ClientOption) *Connection {
	option.Dialer.Timeout = cmp.Or(option.Dialer.Timeout, dialTimeout)
	option.ConnWriteTimeout = cmp.Or(option.ConnWriteTimeout, writeTimeout)
	option.PipelineMultiplex = cmp.Or(option.PipelineMultiplex, -1)
	option.DisableRetry, option.DisableCache = true, true
	return &Connection{option: option}
}

// Eval implements [Client].
func (c *Connection) Eval(ctx context.Context, script string, keys, args []string) ([]string, error) {
	try, err := c.connect()
	if err != nil {
		return nil, err
	}
	select {
	case <-try.done:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if try.err != nil {
		return nil, try.err
	}
	return try.client.Eval(ctx, script, keys, args)
}

// connect returns the last attempt to connect, or a new one if that failed.
func (c *Connection) connect() (*connecting, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil, errClosed
	}
	if c.last == nil || c.last.failed() {
		c.last = &connecting{done: make(chan struct{})}
		go c.last.run(c.option)
	}
	return c.last, nil
}

func (t *connecting) failed() bool {
	select {
	case <-t.done:
		return t.err != nil
	default:
		return false
	}
}

func (t *connecting) run(option valkey.ClientOption) {
	defer close(t.done)
	t.client.client, t.err = valkey.NewClient(option)
	if t.err != nil && t.client.client != nil {
		t.client.client.Close()
	}
}

// Close closes the connections. Close the Fleet first.
func (c *Connection) Close() error {
	c.mu.Lock()
	closed, last := c.closed, c.last
	c.closed = true
	c.mu.Unlock()
	if closed || last == nil {
		return nil
	}
	go func() { // connecting may take longer
		<-last.done
		if last.err == nil {
			last.client.client.Close()
		}
	}()
	return nil
}
