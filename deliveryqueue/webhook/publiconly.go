package webhook

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/hashicorp/go-cleanhttp"
)

// PublicOnly returns a transport that connects only to public addresses, and to
// those in allow. The check is made for each connection, after the name is
// resolved and before anything is sent, so it also covers a name whose address
// changes (DNS rebinding) and a redirect. See [CheckAddr] for the addresses that are
// refused.
//
// If all addresses of a host are refused, the error is an [*AddressError]. It is
// a permanent failure: a delivery to the host is not retried, and becomes a dead
// letter with the address and its kind in the error.
//
// The transport uses no proxy, regardless of the environment: a proxy resolves the
// name itself, so the check would see only the proxy's address. If you set Proxy,
// the proxy must check the addresses, and its own address must be public or in
// allow. You may change other fields, too, except DialContext, DialTLSContext and
// their deprecated forms.
func PublicOnly(allow ...netip.Prefix) *http.Transport {
	t := cleanhttp.DefaultPooledTransport()
	t.Proxy = nil
	// As in awsretry's default Base, so that a connection that hangs is closed.
	t.HTTP2 = &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 5 * time.Second}
	t.DialContext = dialPublic(nil, slices.Clone(allow))
	return t
}

// Loopback returns the addresses of this machine, for the allow of PublicOnly and
// CheckAddr, such as in a test.
func Loopback() []netip.Prefix {
	return []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
}

// dialPublic returns a function that dials the addresses of a host that are not
// refused.
func dialPublic(names *net.Resolver, allow []netip.Prefix) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		var tried atomic.Bool // an address that is not refused
		dialer := net.Dialer{Resolver: names, Timeout: 30 * time.Second, KeepAlive: 30 * time.Second}
		dialer.ControlContext = func(_ context.Context, _, resolved string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(resolved)
			if err == nil {
				err = CheckAddr(to.Addr(), allow...)
			}
			if err == nil {
				tried.Store(true)
			}
			return err
		}
		conn, err := dialer.DialContext(ctx, network, address)
		if refused := (*AddressError)(nil); errors.As(err, &refused) && !tried.Load() {
			// Not inside a net.OpError, which is a failure that a delivery retries.
			return nil, &AddressError{Host: address, Addr: refused.Addr, Kind: refused.Kind}
		}
		return conn, err
	}
}
