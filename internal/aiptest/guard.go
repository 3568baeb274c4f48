package aiptest

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"syscall"
	"testing"
	"time"
)

// NetworkGuard lets connections to this machine through and fails the test on
// every other one, before a name is looked up or a packet leaves. It serves as
// a dialer and as an [http.RoundTripper].
type NetworkGuard struct {
	tb        testing.TB
	dialer    net.Dialer
	transport *http.Transport
}

// GuardNetwork returns a guard that reports to tb. Its idle connections are
// closed when the test ends.
func GuardNetwork(tb testing.TB) *NetworkGuard {
	g := &NetworkGuard{tb: tb}
	g.dialer = net.Dialer{
		Timeout: 10 * time.Second,
		// Looks at the address after names were resolved.
		Control: func(network, addr string, _ syscall.RawConn) error { return g.check(network, addr) },
	}
	g.transport = &http.Transport{DialContext: g.DialContext, DisableCompression: true}
	tb.Cleanup(g.transport.CloseIdleConnections)
	return g
}

// DialContext connects as [net.Dialer.DialContext] does. Anything but loopback
// marks the test as failed and returns an error.
func (g *NetworkGuard) DialContext(ctx context.Context, network, addr string) (net.Conn, error) {
	if host, _, err := net.SplitHostPort(addr); err == nil && host != "localhost" {
		if err := g.check(network, addr); err != nil {
			return nil, err
		}
	}
	return g.dialer.DialContext(ctx, network, addr)
}

// RoundTrip sends the request over guarded connections. It follows no redirect
// and uses no proxy.
func (g *NetworkGuard) RoundTrip(r *http.Request) (*http.Response, error) {
	return g.transport.RoundTrip(r)
}

// check refuses every address whose host is not a loopback IP.
func (g *NetworkGuard) check(network, addr string) error {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		host = addr
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() {
		return nil
	}
	g.tb.Errorf("the test dialled %s %s, which is not loopback", network, addr)
	return fmt.Errorf("network guard: %s is not loopback", addr)
}
