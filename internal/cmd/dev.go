package cmd

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/spf13/cobra"
)

func newDevCmd(r *run) *cobra.Command {
	return group("dev", "Tools for developing against aipctl", "An embedded development daemon that answers like aipd, from memory.", newServeCmd(r))
}

// serveOptions are the flags of dev serve.
type serveOptions struct {
	listen    string
	tokenOut  string
	prefix    string
	speed     float64
	keepAlive time.Duration
}

func newServeCmd(r *run) *cobra.Command {
	o := &serveOptions{}
	c := r.leaf(&cobra.Command{
		Use:  "serve [--listen ADDRESS]",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.runServe(cmd.Context(), o) },
	}, page{
		Purpose: "Serve the embedded development daemon on loopback",
		About: `Serves the native AIP routes from memory, for development and nothing else.
Recorded provider streams play as scenarios; the endpoint part of a capability
names one: cap:hermes_agent:chat-length:chat_stream. The token goes to an
owner-only file. It runs until a signal ends it.`,
		Never: `It never listens on an address but loopback, and keeps nothing on disk but its
token.`,
		Examples: []example{
			{"on a free port", "aipctl dev serve"},
			{"where a script expects it, four times as fast", "aipctl dev serve --listen 127.0.0.1:8700 --token-out ./dev-token --speed 4"},
		},
		Exits: []exit{
			{fault.Accepted, "a signal ended it"},
			{fault.Usage, "a wrong command line, or an address that is not loopback"},
			{fault.Unavailable, "the address cannot be listened on"},
			{fault.State, "the token file cannot be written"},
		},
		See:     []string{"demo", "action call"},
		Without: []flagGroup{connectionFlags, waitingFlags, safetyFlags},
	})
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback `ADDRESS` to listen on; port 0 takes a free one")
	f.StringVar(&o.tokenOut, "token-out", "", "`FILE` to write the token to; a new temporary one when absent")
	f.StringVar(&o.prefix, "path-prefix", "", "serve everything below this `PATH`, as behind a proxy")
	f.Float64Var(&o.speed, "speed", 1, "how many times faster than recorded; 0 leaves no pauses")
	f.DurationVar(&o.keepAlive, "keep-alive", 15*time.Second, "silence before a keep-alive comment")
	return c
}

type serveRecord struct {
	record.Head
	URL       string `json:"url"`
	TokenFile string `json:"token_file"`
}

func (r *run) runServe(ctx context.Context, o *serveOptions) error {
	if o.speed < 0 {
		return usageError("usage.speed", "--speed cannot be negative").WithHint("write --speed 4 for four times as fast, or --speed 0 for no pauses")
	}
	server, err := startDaemon(ctx, daemonOptions{listen: o.listen, tokenOut: o.tokenOut, prefix: o.prefix, speed: o.speed, keepAlive: o.keepAlive})
	if err != nil {
		return err
	}
	defer server.close()
	out := r.renderer()
	if err := out.Record(serveRecord{Head: record.NewHead("serving"), URL: server.url, TokenFile: server.tokenFile}); err != nil {
		return err
	}
	if err := out.Line(sanitize.Format("url         %s", sanitize.Line(server.url))); err != nil {
		return err
	}
	if err := out.Line(sanitize.Format("token file  %s", sanitize.Line(server.tokenFile))); err != nil {
		return err
	}
	out.Note(sanitize.Static("for development only: it answers from memory, and forgets everything when it ends"))
	out.Note(sanitize.Format("try: aipctl action call %s cap:hermes_agent:demo:chat_stream --prompt 'Say hello' --token-file %s", sanitize.Line(server.url), sanitize.Line(server.tokenFile)))
	select {
	case <-ctx.Done():
		return nil
	case err := <-server.failed:
		return fault.New(fault.Internal, "dev.serve", "the development daemon ended: %s", err)
	}
}

// daemonOptions set the embedded daemon up.
type daemonOptions struct {
	listen, tokenOut, prefix string
	speed                    float64
	keepAlive                time.Duration
	hooks                    devserver.Hooks
}

// embedded is a running development daemon.
type embedded struct {
	url       string
	tokenFile string
	server    *devserver.Server
	failed    chan error
	close     func()
}

// startDaemon listens, writes the token, and serves.
func startDaemon(ctx context.Context, o daemonOptions) (*embedded, error) {
	host, _, err := net.SplitHostPort(o.listen)
	if err != nil {
		return nil, usageError("usage.listen", "--listen is no address with a port").WithHint("write HOST:PORT, such as 127.0.0.1:0")
	}
	if ip := net.ParseIP(host); host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return nil, usageError("usage.listen", "--listen must be a loopback address; this daemon protects nothing").
			WithHint("use 127.0.0.1:PORT, [::1]:PORT or localhost:PORT")
	}
	l, err := (&net.ListenConfig{}).Listen(ctx, "tcp", o.listen)
	if err != nil {
		return nil, fault.New(fault.Unavailable, "dev.listen", "the address cannot be listened on").Wrap(err).WithHint("choose another port, or 0 for a free one")
	}
	token := rand.Text()
	tokenFile, remove, err := writeToken(o.tokenOut, token)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	server := devserver.New(devserver.Options{Token: token, PathPrefix: o.prefix, Speed: o.speed, KeepAlive: o.keepAlive, Hooks: o.hooks})
	hs := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	e := &embedded{url: "http://" + l.Addr().String() + o.prefix, tokenFile: tokenFile, server: server, failed: make(chan error, 1)}
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.failed <- err
		}
	}()
	e.close = func() {
		_ = hs.Close() // ends the follow streams; there is nothing to save
		server.Close()
		remove()
	}
	return e, nil
}

// writeToken puts the token into an owner-only file, which is never an
// existing one.
func writeToken(path, token string) (name string, remove func(), err error) {
	remove = func() { _ = os.Remove(path) }
	if path == "" {
		dir, err := os.MkdirTemp("", "aipctl-dev-")
		if err != nil {
			return "", nil, fault.New(fault.State, "dev.token", "no folder for the token can be made").Wrap(err).WithHint("give a file with --token-out FILE")
		}
		path = filepath.Join(dir, "token")
		remove = func() { _ = os.RemoveAll(dir) }
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return "", nil, fault.New(fault.State, "dev.token", "the token file cannot be created: %s", fileReason(err)).
			WithHint("--token-out names a file that does not exist yet")
	}
	_, err = fmt.Fprintln(f, token)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		remove()
		return "", nil, fault.New(fault.State, "dev.token", "the token file cannot be written: %s", fileReason(err)).WithHint("give another file with --token-out FILE")
	}
	return path, remove, nil
}
