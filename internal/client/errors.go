package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http/httptrace"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/idle"
)

// TransportError says that no HTTP answer was obtained. Its text is in our
// own words: the library's may repeat bytes that the peer sent.
type TransportError struct {
	// NoConnection says that no connection was obtained, so no byte of the
	// request can have left this machine.
	NoConnection bool
	What         string
	Err          error
}

// Error implements error.
func (e *TransportError) Error() string { return e.What }

// Reason is what the follower of a stream, which knows no client, tells of it.
func (e *TransportError) Reason() string { return e.What }

// Unwrap gives the cause to errors.Is.
func (e *TransportError) Unwrap() error { return e.Err }

// TooLargeError says that a body passed its bound.
type TooLargeError struct {
	Limit int64  // bytes
	Flag  string // what sets the bound
}

// Error implements error.
func (e *TooLargeError) Error() string {
	return fmt.Sprintf("the answer is larger than the %d bytes of %s", e.Limit, e.Flag)
}

// trace notes how far a request got.
type trace struct {
	got  atomic.Bool // a connection was obtained
	sent func()      // called when the request has left; nil for none
	once sync.Once
}

func (t *trace) into(ctx context.Context) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { t.got.Store(true) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			if info.Err == nil {
				t.left()
			}
		},
	})
}

// left says, once, that the request has left.
func (t *trace) left() {
	if t.sent != nil {
		t.once.Do(t.sent)
	}
}

func (t *trace) connected() bool { return t.got.Load() }

func transportError(ctx context.Context, err error, noConnection bool) *TransportError {
	if cause := context.Cause(ctx); cause != nil {
		return &TransportError{NoConnection: noConnection, What: "stopped: " + stopReason(cause), Err: errors.Join(cause, err)}
	}
	return &TransportError{NoConnection: noConnection, What: reason(err), Err: err}
}

// errProxyRefused stands for the proxy's own words.
var errProxyRefused = errors.New("the proxy did not answer 200 to CONNECT")

func stopReason(cause error) string {
	switch {
	case errors.Is(cause, context.DeadlineExceeded):
		return "the time to wait ran out"
	case errors.Is(cause, context.Canceled):
		return "no longer wanted"
	default:
		return cause.Error()
	}
}

// reason says in our own words why a request failed.
func reason(err error) string {
	var (
		dns     *net.DNSError
		unknown x509.UnknownAuthorityError
		host    x509.HostnameError
		cert    x509.CertificateInvalidError
		verify  *tls.CertificateVerificationError
		record  tls.RecordHeaderError
		alert   tls.AlertError
		op      *net.OpError
		timeout net.Error
		f       *fault.Error
	)
	switch {
	case errors.As(err, &f):
		return f.Message
	case errors.As(err, &op) && op.Op == "proxyconnect": // before what went wrong with it
		return "the proxy could not be reached"
	case errors.Is(err, errProxyRefused):
		return "the proxy refused the way to the daemon"
	case errors.As(err, &dns):
		if dns.IsNotFound {
			return "the host name is not known"
		}
		return "the host name could not be resolved"
	case errors.As(err, &unknown):
		return "the certificate is signed by an unknown authority"
	case errors.As(err, &host):
		return "the certificate is for another host name"
	case errors.As(err, &cert):
		return "the certificate is not valid: " + certReason(cert)
	case errors.As(err, &verify):
		return "the certificate could not be verified"
	case errors.As(err, &record):
		return "the peer does not speak TLS"
	case errors.As(err, &alert), errors.As(err, &op) && op.Op == "remote error":
		return "the TLS handshake was refused"
	case errors.As(err, &op) && op.Op == "local error":
		return "the peer broke the rules of TLS"
	case errors.Is(err, idle.ErrSilent):
		return "no byte came within the idle timeout"
	case isOne(err, errnoRefused):
		return "the connection was refused"
	case isOne(err, errnoReset):
		return "the connection was reset"
	case isOne(err, errnoUnreachable):
		return "the host cannot be reached"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "the answer was cut"
	case errors.Is(err, io.EOF):
		return "the connection was closed without an answer"
	case errors.Is(err, fs.ErrNotExist):
		return "it does not exist"
	case errors.Is(err, fs.ErrPermission):
		return "permission denied"
	case errors.Is(err, context.Canceled):
		return "no longer wanted"
	case errors.As(err, &timeout) && timeout.Timeout():
		if errors.As(err, &op) && op.Op == "dial" {
			return "no connection within the connect timeout"
		}
		if strings.Contains(err.Error(), "TLS handshake timeout") {
			return "no TLS handshake within the connect timeout"
		}
		return "no answer within the time limit"
	case strings.Contains(err.Error(), "server closed idle connection"), strings.Contains(err.Error(), "use of closed network connection"):
		return "the connection was closed"
	case strings.Contains(err.Error(), "server gave HTTP response to HTTPS client"):
		return "the peer does not speak TLS"
	case strings.Contains(err.Error(), "malformed HTTP"), strings.Contains(err.Error(), "malformed MIME"), strings.Contains(err.Error(), "malformed chunked"):
		return "the answer is not HTTP"
	case errors.As(err, &op):
		return "the connection failed during " + op.Op
	default:
		return "the exchange failed"
	}
}

func isOne(err error, of []syscall.Errno) bool {
	var errno syscall.Errno
	return errors.As(err, &errno) && slices.Contains(of, errno)
}

func certReason(e x509.CertificateInvalidError) string {
	switch e.Reason {
	case x509.Expired:
		return "it has expired or is not yet valid"
	case x509.NotAuthorizedToSign:
		return "its issuer may not sign"
	default:
		return "its chain does not hold"
	}
}
