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
	"os"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/idle"
)

// TestReasonsAreOurOwnWords, whatever the cause repeats.
func TestReasonsAreOurOwnWords(t *testing.T) {
	dial := func(err error) error {
		return &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect "+canary, err)}
	}
	for want, causes := range map[string][]error{
		"the connection was refused":                                       {dial(errnoRefused[0])},
		"the connection was reset":                                         {dial(errnoReset[0]), &net.OpError{Op: "write", Err: errnoReset[1]}},
		"the host cannot be reached":                                       {dial(errnoUnreachable[0]), dial(errnoUnreachable[1])},
		"the host name is not known":                                       {&net.DNSError{Err: canary, Name: canary, IsNotFound: true}},
		"the connection was closed":                                        {errors.New("http: server closed idle connection"), errors.New("use of closed network connection")},
		"the peer does not speak TLS":                                      {tls.RecordHeaderError{Msg: canary}, errors.New("http: server gave HTTP response to HTTPS client")},
		"the TLS handshake was refused":                                    {&net.OpError{Op: "remote error", Err: errors.New(canary)}, tls.AlertError(40)},
		"the peer broke the rules of TLS":                                  {&net.OpError{Op: "local error", Err: errors.New(canary)}},
		"the certificate is signed by an unknown authority":                {x509.UnknownAuthorityError{}, &tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}},
		"the certificate is for another host name":                         {x509.HostnameError{Certificate: &x509.Certificate{}, Host: canary}},
		"the certificate is not valid: it has expired or is not yet valid": {x509.CertificateInvalidError{Reason: x509.Expired, Detail: canary}},
		"the certificate is not valid: its issuer may not sign":            {x509.CertificateInvalidError{Reason: x509.NotAuthorizedToSign}},
		"the certificate is not valid: its chain does not hold":            {x509.CertificateInvalidError{Reason: x509.TooManyIntermediates}},
		"the certificate could not be verified":                            {&tls.CertificateVerificationError{Err: errors.New(canary)}},
		"no byte came within the idle timeout":                             {fmt.Errorf("%s: %w", canary, idle.ErrSilent)},
		"the answer was cut":                                               {io.ErrUnexpectedEOF},
		"the connection was closed without an answer":                      {io.EOF},
		"it does not exist":                                                {&fs.PathError{Op: "open", Path: canary, Err: fs.ErrNotExist}},
		"permission denied":                                                {&fs.PathError{Op: "open", Path: canary, Err: fs.ErrPermission}},
		"no longer wanted":                                                 {context.Canceled},
		"no connection within the connect timeout":                         {dial(os.ErrDeadlineExceeded)},
		"no answer within the time limit":                                  {os.ErrDeadlineExceeded},
		"the answer is not HTTP":                                           {errors.New(`malformed HTTP response "` + canary + `"`), errors.New("malformed MIME header: " + canary), errors.New("malformed chunked encoding")},
		"the proxy could not be reached":                                   {&net.OpError{Op: "proxyconnect", Net: "tcp", Err: dial(errnoRefused[0])}, &net.OpError{Op: "proxyconnect", Err: &net.DNSError{Err: canary, IsNotFound: true}}},
		"the connection failed during read":                                {&net.OpError{Op: "read", Err: errors.New(canary)}},
		"the exchange failed":                                              {errors.New(canary)},
		"the token file cannot be read":                                    {fmt.Errorf("x: %w", fault.New(fault.Auth, "c", "the token file cannot be read"))},
	} {
		for _, cause := range causes {
			if got := reason(cause); got != want {
				t.Errorf("%T %v is told as %q, want %q", cause, cause, got, want)
			}
		}
	}
}

// The follower asks for the words by this method alone.
func TestTransportErrorHasAReason(t *testing.T) {
	var err error = transportError(t.Context(), io.EOF, false)
	told, ok := err.(interface{ Reason() string })
	if !ok || told.Reason() != "the connection was closed without an answer" {
		t.Errorf("%T tells %v", err, told)
	}
}

func TestWhyARequestWasStopped(t *testing.T) {
	for want, cause := range map[string]error{
		"stopped: the time to wait ran out": context.DeadlineExceeded,
		"stopped: no longer wanted":         context.Canceled,
		"stopped: interrupted":              fault.New(fault.Interrupt, "signal", "interrupted"),
	} {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		lost := errors.New(canary)
		te := transportError(ctx, lost, false)
		if te.Error() != want || !errors.Is(te, cause) || !errors.Is(te, lost) {
			t.Errorf("%v is told as %q", cause, te.Error())
		}
	}
}
