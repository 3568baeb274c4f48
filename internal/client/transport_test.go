package client

import (
	"bufio"
	"compress/gzip"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/idle"
)

// certificate makes one for these names, signed by itself.
func certificate(t *testing.T, until time.Time, names ...string) tls.Certificate {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	tmpl := x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: until.Add(-48 * time.Hour), NotAfter: until,
		IsCA: true, BasicConstraintsValid: true, KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign,
	}
	for _, n := range names {
		if ip := net.ParseIP(n); ip != nil {
			tmpl.IPAddresses = append(tmpl.IPAddresses, ip)
		} else {
			tmpl.DNSNames = append(tmpl.DNSNames, n)
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, &tmpl, &tmpl, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}
}

// serveTLS answers over TLS with a certificate and returns the URL and a PEM
// file of it.
func serveTLS(t *testing.T, cert tls.Certificate, h http.HandlerFunc) (url, caFile string) {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
	s.Config.ErrorLog = discardLog()
	s.StartTLS()
	t.Cleanup(s.Close)
	return s.URL, pemFile(t, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: cert.Certificate[0]}))
}

func pemFile(t *testing.T, content []byte) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(file, content, 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}

// TestNoConnection: only without one is it proven that no byte of the request
// has left, and only then does the error say so.
func TestNoConnection(t *testing.T) {
	now := time.Now()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	refused := "http://" + l.Addr().String()
	plain := serve(t, answer(200, "text/plain", canary))
	hangUp := plug(t, func(_ *wire, _ *net.TCPConn, r *bufio.Reader) { _, _ = r.ReadByte() })
	alert := plug(t, func(_ *wire, c *net.TCPConn, r *bufio.Reader) {
		_, _ = io.WriteString(c, "\x15\x03\x03\x00\x02\x02\x28") // handshake_failure
		_, _ = r.ReadByte()
	})
	stranger, _ := serveTLS(t, certificate(t, now.Add(time.Hour), "127.0.0.1"), answer(200, "text/plain", canary))
	other, otherCA := serveTLS(t, certificate(t, now.Add(time.Hour), "other.example"), answer(200, "text/plain", canary))
	old, oldCA := serveTLS(t, certificate(t, now.Add(-time.Hour), "127.0.0.1"), answer(200, "text/plain", canary))
	fails := func(err error) func(*Client) {
		return func(c *Client) {
			dialer(c, func(context.Context, string, string) (net.Conn, error) { return nil, err })
		}
	}
	for _, tc := range []struct {
		rule, url, ca string
		change        func(*Client)
		what          string
	}{
		{"nobody listens", refused, "", nil, "the connection was refused"},
		{"the name is not known", "https://nowhere.invalid", "", fails(&net.DNSError{Err: "no such host " + canary, Name: canary, IsNotFound: true}), "the host name is not known"},
		{"the name server does not answer", "https://nowhere.invalid", "", fails(&net.DNSError{Err: "timeout", Name: canary, IsTimeout: true}), "the host name could not be resolved"},
		{"the dial takes too long", "https://nowhere.invalid", "", fails(&net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}), "no connection within the connect timeout"},
		{"the peer speaks no TLS", strings.Replace(plain, "http://", "https://", 1), "", nil, "the peer does not speak TLS"},
		{"the peer hangs up on the handshake", strings.Replace(hangUp.URL, "http://", "https://", 1), "", nil, ""},
		{"the peer refuses the handshake", strings.Replace(alert.URL, "http://", "https://", 1), "", nil, "the TLS handshake was refused"},
		{"an unknown authority", stranger, "", nil, "the certificate is signed by an unknown authority"},
		{"another host's certificate", other, otherCA, nil, "the certificate is for another host name"},
		{"a certificate of the past", old, oldCA, nil, "the certificate is not valid: it has expired or is not yet valid"},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			c := open(t, tc.url, func(o *Options) { o.CAFile = tc.ca })
			if tc.change != nil {
				tc.change(c)
			}
			for _, call := range calls {
				err := call.do(t.Context(), c)
				te := transported(t, err)
				quiet(t, err)
				if !te.NoConnection {
					t.Errorf("%s: the request may have left, says the error", call.name)
				}
				if tc.what != "" && te.Error() != tc.what {
					t.Errorf("%s: %q, want %q", call.name, te.Error(), tc.what)
				}
			}
		})
	}
	t.Run("stopped before anything", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(fault.New(fault.Interrupt, "signal", "interrupted"))
		c := open(t, plain, nil)
		for _, call := range calls {
			err := call.do(ctx, c)
			if te := transported(t, err); !te.NoConnection || te.Error() != "stopped: interrupted" || fault.ClassOf(err) != fault.Interrupt {
				t.Errorf("%s: %+v", call.name, te)
			}
		}
	})
}

// TestAProxyThatRefuses leaves the request where it was: the tunnel to the
// daemon was never there.
func TestAProxyThatRefuses(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	l.Close()
	for _, tc := range []struct{ rule, proxy, what string }{
		{"nobody listens", "http://" + l.Addr().String(), "the proxy could not be reached"},
		{"it wants a password", plug(t, says("HTTP/1.1 407 "+canary+"\r\nContent-Length: 0\r\n\r\n")).URL, "the proxy refused the way to the daemon"},
		{"it does not reach the daemon", plug(t, says("HTTP/1.1 502 "+canary+"\r\nContent-Length: 0\r\n\r\n")).URL, "the proxy refused the way to the daemon"},
		{"it hangs up", plug(t, func(w *wire, _ *net.TCPConn, r *bufio.Reader) { w.take(r) }).URL, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			c := open(t, "https://daemon.example", nil)
			for _, rt := range []http.RoundTripper{c.read, c.submit} {
				rt.(*http.Transport).Proxy = http.ProxyURL(mustParse(t, tc.proxy))
			}
			for _, call := range calls {
				err := call.do(t.Context(), c)
				quiet(t, err)
				if te := transported(t, err); !te.NoConnection || tc.what != "" && te.Error() != tc.what {
					t.Errorf("%s: %q, no connection %v", call.name, te.Error(), te.NoConnection)
				}
			}
		})
	}
}

func TestTheCAFile(t *testing.T) {
	var proto string
	url, ca := serveTLS(t, certificate(t, time.Now().Add(time.Hour), "127.0.0.1"), func(w http.ResponseWriter, r *http.Request) {
		proto = r.Proto
		answer(200, "application/json", result)(w, r)
	})
	c := open(t, url, func(o *Options) { o.CAFile = ca })
	if _, err := c.Result(t.Context(), "act_1", aip.ResultDecoding{}); err != nil {
		t.Errorf("with the CA file: %v", err)
	}
	if _, err := c.Submit(t.Context(), []byte(`{}`), nil, aip.ResultDecoding{}); err != nil {
		t.Errorf("a submit with the CA file: %v", err)
	}
	// HTTP/2 was offered; its transport sends requests again on its own.
	if proto != "HTTP/1.1" {
		t.Errorf("the submit went over %s", proto)
	}
	for rule, tc := range map[string]struct{ file, code string }{
		"no such file":  {filepath.Join(t.TempDir(), "none.pem"), "ca_file.unreadable"},
		"no PEM":        {pemFile(t, []byte(canary)), "ca_file.no_certificate"},
		"an empty file": {pemFile(t, nil), "ca_file.no_certificate"},
		"a key":         {pemFile(t, []byte("-----BEGIN PRIVATE KEY-----\nQ0FOQVJZ\n-----END PRIVATE KEY-----\n")), "ca_file.no_certificate"},
	} {
		_, err := New(Options{Base: mustParse(t, url), CAFile: tc.file})
		if f := fault.As(err); f == nil || f.Class != fault.Usage || f.Code != tc.code || f.Hint == "" || !strings.Contains(f.Message, tc.file) {
			t.Errorf("%s: %v", rule, err)
		}
		quiet(t, err)
	}
}

// inMemory replaces the network by pipes, so that time can be a fake one. Each
// connection is given to serve.
func inMemory(c *Client, serve func(net.Conn)) {
	dialer(c, func(context.Context, string, string) (net.Conn, error) {
		here, there := net.Pipe()
		go func() {
			defer there.Close()
			serve(there)
		}()
		return here, nil
	})
}

// TestTimeouts runs on a fake clock: what is bounded ends at its bound, and
// what is not bounded waits.
func TestTimeouts(t *testing.T) {
	const connect, header, silence = 10 * time.Second, 20 * time.Second, 45 * time.Second
	options := func(o *Options) { o.ConnectTimeout, o.HeaderTimeout, o.IdleTimeout = connect, header, silence }
	deaf := func(c net.Conn) { _, _ = io.Copy(io.Discard, c) }
	// started answers a request with these bytes after a time, and no more.
	started := func(after time.Duration, bytes string) func(net.Conn) {
		return func(c net.Conn) {
			req, err := http.ReadRequest(bufio.NewReader(c))
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, req.Body)
			time.Sleep(after)
			_, _ = io.WriteString(c, bytes)
			deaf(c)
		}
	}
	const jsonHead = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 500\r\n\r\n"
	for _, tc := range []struct {
		rule, url string
		serve     func(net.Conn)
		call      call
		after     time.Duration
		what      string
		none      bool
	}{
		{"no TLS handshake", "https://daemon.example", deaf, calls[2], connect, "no TLS handshake within the connect timeout", true},
		{"no head of the answer to a read", "http://127.0.0.1", deaf, calls[2], header, "no answer within the time limit", false},
		{"no head of the answer to a follow", "http://127.0.0.1", deaf, calls[4], header, "no answer within the time limit", false},
		{"no head of the answer to a cancel", "http://127.0.0.1", deaf, calls[5], header, "no answer within the time limit", false},
		{"a body that falls silent", "http://127.0.0.1", started(0, jsonHead+`{"action_result":{"status":"`), calls[1], silence, "the answer was cut: no byte came within the idle timeout", false},
		{"a page that falls silent", "http://127.0.0.1", started(0, jsonHead+`{"action_events":`), calls[3], silence, "the answer was cut: no byte came within the idle timeout", false},
		{"a reply that falls silent", "http://127.0.0.1", started(0, jsonHead+`{"body":`), submitCall(), silence, "the answer was cut: no byte came within the idle timeout", false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				c := open(t, tc.url, options)
				inMemory(c, tc.serve)
				start := time.Now()
				err := tc.call.do(t.Context(), c)
				te := transported(t, err)
				if te.Error() != tc.what || te.NoConnection != tc.none {
					t.Errorf("%q, no connection %v", te.Error(), te.NoConnection)
				}
				if waited := time.Since(start); waited != tc.after {
					t.Errorf("waited %s, want %s", waited, tc.after)
				}
				if strings.Contains(tc.what, "idle") != errors.Is(err, idle.ErrSilent) {
					t.Errorf("the cause is %v", te.Err)
				}
				c.Close()
			})
		})
	}
	t.Run("an error body that falls silent is an answer all the same", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, "http://127.0.0.1", options)
			inMemory(c, started(0, "HTTP/1.1 502 Bad Gateway\r\nContent-Type: text/html\r\nContent-Length: 500\r\n\r\n<html>"))
			_, err := c.Status(t.Context(), "act_1")
			if re := remote(t, err); re.Status != 502 || re.Form != aip.FormHTML {
				t.Errorf("%+v", re)
			}
			c.Close()
		})
	})
	t.Run("a submit waits for its answer as long as it takes", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, "http://127.0.0.1", options)
			inMemory(c, started(time.Hour, ok(result)))
			if r, err := c.Submit(t.Context(), []byte(`{}`), nil, aip.ResultDecoding{}); err != nil || r.Result == nil {
				t.Errorf("%+v (%v)", r, err)
			}
			c.Close()
		})
	})
	t.Run("a submit ends with its context", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			c := open(t, "http://127.0.0.1", options)
			inMemory(c, deaf)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			err := submitCall().do(ctx, c)
			if te := transported(t, err); te.NoConnection || te.Error() != "stopped: the time to wait ran out" || !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("%+v", te)
			}
			c.Close()
		})
	})
}

// TestNoEncodingIsAccepted: a stream that something on the way compresses
// would come in lumps, and a size bound would count the wrong bytes.
func TestNoEncodingIsAccepted(t *testing.T) {
	url := serve(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		_, _ = io.WriteString(z, result)
		z.Close()
	})
	c := open(t, url, nil)
	for _, call := range calls {
		err := call.do(t.Context(), c)
		if re := remote(t, err); re.Status != 200 || re.Form != aip.FormEncoded || !strings.Contains(err.Error(), "encoding") {
			t.Errorf("%s: %+v", call.name, re)
		}
	}
	identity := serve(t, func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "Identity")
		answer(200, "application/json", result)(w, r)
	})
	if _, err := open(t, identity, nil).Result(t.Context(), "act_1", aip.ResultDecoding{}); err != nil {
		t.Errorf("an encoding that is none: %v", err)
	}
}

func TestTheSizeBound(t *testing.T) {
	bodies := map[string]string{
		"submit": result, "result": result, "cancel": result,
		"status": `{"action_status":{"state":"running"}}`,
		"page":   `{"action_events":{"action_id":"act_1","events":[],"terminal":false}}`,
	}
	for _, chunked := range []bool{false, true} {
		for _, call := range calls {
			body, ok := bodies[call.name]
			if !ok {
				continue // follow has the bound of its reader, ready reads no body
			}
			url := serve(t, func(w http.ResponseWriter, r *http.Request) {
				w.Header().Set("Content-Type", "application/json")
				if chunked {
					w.(http.Flusher).Flush()
				}
				_, _ = io.WriteString(w, body)
			})
			fits := open(t, url, func(o *Options) { o.MaxResultBytes = int64(len(body)) })
			if err := call.do(t.Context(), fits); err != nil {
				t.Errorf("%s: a body of exactly the bound: %v", call.name, err)
			}
			short := int64(len(body) - 1)
			err := call.do(t.Context(), open(t, url, func(o *Options) { o.MaxResultBytes = short }))
			var large *TooLargeError
			if !errors.As(err, &large) || large.Limit != short || large.Flag != "--max-result-bytes" || !strings.Contains(err.Error(), "--max-result-bytes") {
				t.Errorf("%s: a body above the bound: %v", call.name, err)
			}
			if err := call.do(t.Context(), open(t, url, nil)); err != nil {
				t.Errorf("%s: without a bound: %v", call.name, err)
			}
		}
	}
}
