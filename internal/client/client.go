// Package client speaks the unary routes of the native HTTP surface and opens
// its event stream.
//
// Invariants kept here:
//
//   - A submit is written to one fresh connection, once. It has no GetBody, no
//     Idempotency-Key header (Go's transport would send it again by itself)
//     and no HTTP/2 (whose transport retries streams on its own).
//   - A redirect is an answer, never a request: no token goes anywhere but to
//     the origin that the user named.
//   - No error text and no log entry holds a byte of a body, a token, a path
//     with an id or a query value; a code that repeats the token is none.
package client

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"mime"
	"net"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/idle"
)

// Options configure a [Client]. Durations of 0 mean no bound.
type Options struct {
	Base           *url.URL
	Token          func() (string, error) // called for each attempt; an empty token sends no header
	CAFile         string                 // PEM file added to the system's roots
	ConnectTimeout time.Duration          // for TCP and TLS each
	HeaderTimeout  time.Duration          // reads and cancel: from request to response header
	IdleTimeout    time.Duration          // reads and cancel: between two bytes of a body
	MaxResultBytes int64                  // largest result or page body; 0 is unbounded
	AllowPlaintext bool                   // let a token cross http:// to a host that is not loopback
	UserAgent      string
	Log            func(Exchange) // redacted; nil logs nothing
	Now            func() time.Time
	// Transport replaces the network for reads and submits alike.
	Transport http.RoundTripper
}

// Client is one daemon as one principal sees it. It is safe for concurrent
// use.
type Client struct {
	o      Options
	read   http.RoundTripper
	submit http.RoundTripper
	close  []func()
	shown  shown
}

// New checks the options and builds the client. Nothing is sent.
func New(o Options) (*Client, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Token == nil {
		o.Token = func() (string, error) { return "", nil }
	}
	c := &Client{o: o}
	if o.Transport != nil {
		c.read, c.submit = o.Transport, o.Transport
		return c, nil
	}
	roots, err := loadRoots(o.CAFile)
	if err != nil {
		return nil, err
	}
	read := newTransport(o, roots)
	read.ResponseHeaderTimeout = o.HeaderTimeout
	submit := newTransport(o, roots)
	submit.DisableKeepAlives = true
	c.read, c.submit = read, submit
	c.close = []func(){read.CloseIdleConnections, submit.CloseIdleConnections}
	return c, nil
}

// Close drops idle connections.
func (c *Client) Close() {
	for _, f := range c.close {
		f()
	}
}

func newTransport(o Options, roots *x509.CertPool) *http.Transport {
	return &http.Transport{
		Proxy: http.ProxyFromEnvironment,
		OnProxyConnectResponse: func(_ context.Context, _ *url.URL, _ *http.Request, resp *http.Response) error {
			if resp.StatusCode != http.StatusOK {
				return errProxyRefused
			}
			return nil
		},
		DialContext:         (&net.Dialer{Timeout: o.ConnectTimeout, KeepAlive: 15 * time.Second}).DialContext,
		TLSHandshakeTimeout: o.ConnectTimeout,
		TLSClientConfig:     &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: roots},
		// An empty map keeps HTTP/2 off.
		TLSNextProto:       map[string]func(string, *tls.Conn) http.RoundTripper{},
		DisableCompression: true,
		MaxIdleConns:       8,
		IdleConnTimeout:    60 * time.Second,
	}
}

// loadRoots adds a PEM file to the system's roots; nil keeps the system's.
func loadRoots(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fault.New(fault.Usage, "ca_file.unreadable", "the CA file %s cannot be read: %s", file, reason(err)).
			WithHint("give a PEM file with --ca-file")
	}
	roots, err := x509.SystemCertPool()
	if err != nil {
		roots = x509.NewCertPool()
	}
	if !roots.AppendCertsFromPEM(pem) {
		return nil, fault.New(fault.Usage, "ca_file.no_certificate", "the CA file %s holds no PEM certificate", file).
			WithHint("give a PEM file with --ca-file")
	}
	return roots, nil
}

// ParseBase reads the daemon's URL. A path prefix is kept; credentials, a
// query and a fragment are refused.
func ParseBase(raw string) (*url.URL, error) {
	bad := func(why string) error {
		return fault.New(fault.Usage, "url.invalid", "the daemon's URL is not usable: %s", why).
			WithHint("give it as http://host:port or https://host, with --url, AIP_URL or as the first argument")
	}
	u, err := url.Parse(raw)
	switch {
	case raw == "":
		return nil, bad("it is empty")
	case err != nil:
		return nil, bad("it does not parse")
	case u.User != nil:
		return nil, bad("it has credentials in it; a token belongs in an owner-only file, see --token-file")
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, bad("its scheme is neither http nor https")
	case u.Hostname() == "":
		return nil, bad("it names no host")
	case u.RawQuery != "" || u.ForceQuery:
		return nil, bad("it has a query")
	case u.Fragment != "":
		return nil, bad("it has a fragment")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	u.Host = strings.ToLower(u.Host)
	u.Path = strings.TrimRight(u.Path, "/")
	u.RawPath = strings.TrimRight(u.RawPath, "/")
	return u, nil
}

// Loopback reports whether the host of u is this machine.
func Loopback(u *url.URL) bool {
	h := u.Hostname()
	if h == "localhost" || strings.HasSuffix(h, ".localhost") {
		return true
	}
	ip := net.ParseIP(h)
	return ip != nil && ip.IsLoopback()
}

// request is one exchange before it is sent.
type request struct {
	method string
	route  string // template, for the log
	path   []string
	query  url.Values
	body   []byte
	submit bool
	sent   func() // called when the request has left; nil for none
	token  string // what was last shown for this request, to see whether a re-read changed it
}

func (c *Client) build(ctx context.Context, r *request) (*http.Request, error) {
	u := *c.o.Base
	raw := u.EscapedPath()
	for _, p := range r.path {
		raw += "/" + url.PathEscape(p)
	}
	var err error
	if u.Path, err = url.PathUnescape(raw); err != nil {
		return nil, err
	}
	u.RawPath = raw
	u.RawQuery = r.query.Encode()
	var body io.Reader
	if r.body != nil {
		// A plain reader: net/http knows no way to send it a second time.
		body = struct{ io.Reader }{strings.NewReader(string(r.body))}
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, err
	}
	req.GetBody = nil
	if r.body != nil {
		req.ContentLength = int64(len(r.body))
		req.Header.Set("Content-Type", "application/json")
	}
	req.Header.Set("Accept-Encoding", "identity")
	if c.o.UserAgent != "" {
		req.Header.Set("User-Agent", c.o.UserAgent)
	}
	token, err := c.o.Token()
	if err != nil {
		return nil, err
	}
	if token != "" {
		if c.o.Base.Scheme == "http" && !Loopback(c.o.Base) && !c.o.AllowPlaintext {
			return nil, fault.New(fault.Usage, "url.plaintext_token", "a token would cross http:// to a host that is not loopback").
				WithHint("use https://, or give --allow-plaintext if the path to the host is safe")
		}
		req.Header.Set("Authorization", "Bearer "+token)
		c.shown.add(token)
	}
	r.token = token
	return req, nil
}

// roundTrip sends the request once and returns the answer, or an error that
// says how far the request got.
func (c *Client) roundTrip(ctx context.Context, r *request) (*http.Response, error) {
	req, err := c.build(ctx, r)
	if err != nil {
		if fault.As(err) != nil {
			return nil, &TransportError{NoConnection: true, What: fault.As(err).Message, Err: err}
		}
		return nil, &TransportError{NoConnection: true, What: "the request cannot be built", Err: err}
	}
	trace := &trace{sent: r.sent}
	rt := c.read
	if r.submit {
		rt = c.submit
	}
	start := c.o.Now()
	resp, err := rt.RoundTrip(req.WithContext(trace.into(ctx)))
	x := Exchange{Method: r.method, Route: r.route, Took: c.o.Now().Sub(start), Sent: len(r.body)}
	if err != nil {
		te := transportError(ctx, err, !trace.connected())
		x.Failure = te.What
		c.log(x)
		return nil, te
	}
	// A daemon may answer before it has read the whole of a request, whose
	// writing then fails.
	trace.left()
	x.Status = resp.StatusCode
	x.Header = allowedHeaders(resp.Header)
	x.Received = resp.ContentLength
	if code := resp.StatusCode; code < 200 || code > 299 {
		remote := readError(resp, c.o.IdleTimeout)
		_ = c.unecho(remote)
		x.Code = remote.Code()
		c.log(x)
		return nil, remote
	}
	c.log(x)
	if enc := resp.Header.Get("Content-Encoding"); enc != "" && !strings.EqualFold(enc, "identity") {
		resp.Body.Close()
		return nil, c.unecho(&aip.RemoteError{Status: resp.StatusCode, Form: aip.FormEncoded, ContentType: mediaType(resp), Date: dateOf(resp)})
	}
	return resp, nil
}

// readOnce is roundTrip for requests that may be repeated: after a 401 the
// token file is read again, and a token that has changed gets one more try.
func (c *Client) readOnce(ctx context.Context, r request) (*http.Response, error) {
	resp, err := c.roundTrip(ctx, &r)
	var remote *aip.RemoteError
	if !errors.As(err, &remote) || remote.Status != http.StatusUnauthorized {
		return resp, err
	}
	if token, terr := c.o.Token(); terr != nil || token == r.token {
		return nil, err
	}
	return c.roundTrip(ctx, &r)
}

// readError reads at most a bounded part of an error body.
func readError(resp *http.Response, limit time.Duration) *aip.RemoteError {
	body := idle.Watch(resp.Body, limit)
	defer body.Close()
	raw, _ := io.ReadAll(io.LimitReader(body, 1<<20))
	ct := mediaType(resp)
	proto, form := aip.DecodeError(ct, raw)
	e := &aip.RemoteError{Status: resp.StatusCode, Form: form, ContentType: ct, Proto: proto, Date: dateOf(resp)}
	e.Retry = max(proto.RetryAfter(), retryAfter(resp))
	if resp.StatusCode >= 300 && resp.StatusCode < 400 {
		e.Redirect = unnamed
		if loc, err := resp.Location(); err == nil {
			e.Redirect = loc.Scheme + "://" + loc.Host
		}
	}
	return e
}

func mediaType(resp *http.Response) string {
	mt, _, err := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if err != nil {
		return ""
	}
	return mt
}

func dateOf(resp *http.Response) time.Time {
	t, err := http.ParseTime(resp.Header.Get("Date"))
	if err != nil {
		return time.Time{}
	}
	return t
}

// retryAfter reads whole seconds; a date, a sign or a number that does not
// fit is no wait at all.
func retryAfter(resp *http.Response) time.Duration {
	n, err := strconv.ParseUint(resp.Header.Get("Retry-After"), 10, 32)
	if err != nil {
		return 0
	}
	return min(time.Duration(n)*time.Second, 24*time.Hour)
}
