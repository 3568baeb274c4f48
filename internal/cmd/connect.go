package cmd

import (
	"io"
	"io/fs"
	"net/url"
	"runtime"
	"strings"
	"sync"

	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/config"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
)

// daemon is one resolved daemon with everything to reach it.
type daemon struct {
	base      *url.URL
	url       string
	tokenFile string // empty when the token comes from the environment
	caFile    string
	principal string // fingerprint of the token
	named     config.Settings
	client    *client.Client
}

// sign puts into an intent at which daemon it is, and as whom.
func (d *daemon) sign(in *state.Intent) {
	in.URL, in.Principal = d.url, d.principal
	in.ContextPrincipal, in.Tenant = d.named.Principal, d.named.Tenant
}

// isURL reports whether an argument is the daemon and not an object. One with
// another scheme is taken for a daemon too, so that its scheme is what is
// refused.
func isURL(s string) bool { return strings.Contains(s, "://") }

// takeURL splits the optional leading URL off the arguments.
func takeURL(args []string) (raw string, rest []string) {
	if len(args) > 0 && isURL(args[0]) {
		return args[0], args[1:]
	}
	return "", args
}

// connect resolves the settings and makes the client. The token file is read
// here once, so that a bad one is refused before anything is written or sent.
func (r *run) connect(arg string, out *render.Renderer) (*daemon, error) {
	s, err := r.settings(arg, false)
	if err != nil {
		return nil, err
	}
	r.sayNamed(out, s)
	if s.URL.Text == "" {
		return nil, noDaemon(s)
	}
	base, err := client.ParseBase(s.URL.Text)
	if err != nil {
		if name := s.Context.Text; strings.HasPrefix(s.URL.From, config.FromContext) {
			return nil, fault.As(err).WithHint("it is the URL of context %s; mend it with `aipctl context set %s --url URL`", name, name)
		}
		return nil, err
	}
	source := r.tokenSource(s)
	token, err := source.Load()
	if err != nil {
		return nil, err
	}
	if !token.IsZero() && base.Scheme == "http" && !client.Loopback(base) && !r.opts.allowPlaintext {
		return nil, usageError("url.plaintext_token", "a token would cross http:// to a host that is not this machine").
			WithHint("use https://, or give --allow-plaintext if the path to the host is safe")
	}
	d := &daemon{base: base, url: base.String(), tokenFile: source.File, caFile: s.CAFile.Text, principal: identity.Fingerprint(token), named: s}
	d.client, err = r.newClient(base, source, token, d.caFile, out)
	return d, err
}

// newClient makes the client of a daemon. The token is read from its source for
// each request; the one that is given is what must not be shown.
func (r *run) newClient(base *url.URL, source identity.TokenSource, token identity.Token, caFile string, out *render.Renderer) (*client.Client, error) {
	redact := sanitize.NewRedactor(token.Reveal())
	return client.New(client.Options{
		Base: base, CAFile: caFile,
		Token: func() (string, error) {
			t, err := source.Load()
			return t.Reveal(), err
		},
		ConnectTimeout: r.opts.connectTimeout, HeaderTimeout: r.opts.idleTimeout, IdleTimeout: r.opts.idleTimeout,
		MaxResultBytes: r.opts.maxResultBytes, AllowPlaintext: r.opts.allowPlaintext,
		UserAgent: "aipctl/" + r.Version.Version + " (" + runtime.GOOS + ")", Now: r.Now,
		Log: r.httpLog(out, redact),
	})
}

// secrets are what the environment and the token file hold; they are taken
// out of everything on stderr, whoever put them there.
func (r *run) secrets() []string {
	var out []string
	named := r.named
	if named == nil { // the run ended before it came to that
		given := r.given("", false)
		s, err := config.Resolve(given, r.loadContexts)
		if err != nil {
			s.TokenFile = given.TokenFile
		}
		named = &s
	}
	if t, err := (identity.TokenSource{File: named.TokenFile.Text}).Load(); err == nil && !t.IsZero() {
		out = append(out, t.Reveal())
	}
	if v := strings.TrimSpace(r.Env(envToken)); v != "" {
		out = append(out, v)
	}
	return out
}

// redacted wraps a stream so that no line on it holds the token.
func (r *run) redacted(w io.Writer) io.Writer {
	return &redactingWriter{w: w, redactor: sync.OnceValue(func() *sanitize.Redactor { return sanitize.NewRedactor(r.secrets()...) })}
}

// redactingWriter learns the secrets at its first line: by then it is known
// which token the run uses, and a run that says nothing reads no file for it.
type redactingWriter struct {
	w        io.Writer
	redactor func() *sanitize.Redactor
}

// Write takes whole lines, as the renderer writes them. A record stays one: a
// token may happen to be a word or a number of ours.
func (w *redactingWriter) Write(p []byte) (int, error) {
	line, r := string(p), w.redactor()
	before, record, ok := strings.Cut(line, `{"v":`)
	if ok && strings.Trim(before, "\r\n ") == "" {
		line = before + r.JSON(`{"v":`+record)
	} else {
		line = r.String(line)
	}
	if _, err := io.WriteString(w.w, line); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Stat says where the stream under it leads, so that a log of both streams is
// known to be one.
func (w *redactingWriter) Stat() (fs.FileInfo, error) {
	f, ok := w.w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return nil, fs.ErrInvalid
	}
	return f.Stat()
}

// httpLog shows exchanges on stderr: one line with -v, headers too with
// --debug-http.
func (r *run) httpLog(out *render.Renderer, redact *sanitize.Redactor) func(client.Exchange) {
	if !r.opts.verbose && !r.opts.debugHTTP {
		return nil
	}
	return func(x client.Exchange) {
		answer := sanitize.Format("%s", sanitize.Line(x.Failure))
		if x.Status != 0 {
			answer = sanitize.Int(int64(x.Status))
			if x.Code != "" {
				answer = sanitize.Format("%s %s", answer, sanitize.LineMax(redact.String(x.Code), 80))
			}
		}
		line := sanitize.Format("http: %s %s -> %s in %s, sent %s bytes", sanitize.Line(x.Method), sanitize.Line(x.Route), answer, sanitize.Duration(x.Took), sanitize.Int(int64(x.Sent)))
		if x.Received >= 0 && x.Status != 0 {
			line = sanitize.Format("%s, got %s", line, sanitize.Int(x.Received))
		}
		out.Log(line)
		if !r.opts.debugHTTP {
			return
		}
		for _, name := range client.LoggedHeaders() {
			if v, ok := x.Header[name]; ok {
				out.Log(sanitize.Format("http:   %s: %s", sanitize.Line(name), sanitize.LineMax(redact.String(v), 120)))
			}
		}
	}
}
