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
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/userfile"
	"github.com/spf13/cobra"
)

func newDevCmd(r *run) *cobra.Command {
	return group("dev", "Tools for developing against aipctl", "An embedded development daemon that answers like aipd, from memory.", newServeCmd(r))
}

// serveOptions are the flags of dev serve.
type serveOptions struct {
	listen      string
	tokenOut    string
	approverOut string
	prefix      string
	speed       float64
	keepAlive   time.Duration
	approvalTTL time.Duration
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
names one: cap:hermes_agent:chat-length:chat_stream. Two tokens go to owner-only
files: one to submit with, and one of another principal, who may decide about
approvals. It runs until a signal ends it.`,
		Never: `It never listens on an address but loopback, and keeps nothing on disk but its
tokens.`,
		Examples: []example{
			{"on a free port", "aipctl dev serve"},
			{"where a script expects it, four times as fast", "aipctl dev serve --listen 127.0.0.1:8700 --token-out ./dev-token --speed 4"},
			{"with approvals that expire soon", "aipctl dev serve --approver-token-out ./approver-token --approval-ttl 30s"},
		},
		Exits: []exit{
			{fault.Accepted, "a signal ended it"},
			{fault.Usage, "a wrong command line, or an address that is not loopback"},
			{fault.Unavailable, "the address cannot be listened on"},
			{fault.State, "a token file cannot be written"},
		},
		See:     []string{"demo", "action call"},
		Without: []flagGroup{connectionFlags, waitingFlags, safetyFlags, answerFlags},
	})
	f := c.Flags()
	f.StringVar(&o.listen, "listen", "127.0.0.1:0", "loopback `ADDRESS` to listen on; port 0 takes a free one")
	f.StringVar(&o.tokenOut, "token-out", "", "`FILE` to write the token to; a new temporary one when absent")
	f.StringVar(&o.approverOut, "approver-token-out", "", "`FILE` to write the approver's token to; a new temporary one when absent")
	f.StringVar(&o.prefix, "path-prefix", "", "serve everything below this `PATH`, as behind a proxy")
	f.Float64Var(&o.speed, "speed", 1, "how many times faster than recorded; 0 leaves no pauses")
	f.DurationVar(&o.keepAlive, "keep-alive", 15*time.Second, "silence before a keep-alive comment")
	f.DurationVar(&o.approvalTTL, "approval-ttl", 15*time.Minute, "how long an approval waits for a decision")
	return c
}

// serveRecord says where the daemon is and which token belongs to whom.
type serveRecord struct {
	record.Head
	URL               string    `json:"url"`                 // the daemon, a path prefix included
	TokenFile         string    `json:"token_file"`          // owner-only file with the requester's token
	Principal         principal `json:"principal"`           // the requester
	ApproverTokenFile string    `json:"approver_token_file"` // owner-only file with the approver's token
	Approver          principal `json:"approver"`            // who may decide on approvals
}

// principal names a party of the protocol in a record.
type principal struct {
	ID   string `json:"id"`   // of the principal
	Kind string `json:"kind"` // user, service, or another word of the protocol
}

func (r *run) runServe(ctx context.Context, o *serveOptions) error {
	if o.speed < 0 {
		return usageError("usage.speed", "--speed cannot be negative").WithHint("write --speed 4 for four times as fast, or --speed 0 for no pauses")
	}
	if o.approvalTTL <= 0 {
		return usageError("usage.approval-ttl", "--approval-ttl must be above 0").WithHint("write --approval-ttl 30s for half a minute")
	}
	server, err := startDaemon(ctx, daemonOptions{
		listen: o.listen, tokenOut: o.tokenOut, approverOut: o.approverOut, approver: true, prefix: o.prefix,
		speed: o.speed, keepAlive: o.keepAlive, approvalTTL: o.approvalTTL,
	})
	if err != nil {
		return err
	}
	defer server.close()
	out := r.renderer()
	if err := out.Record(serveRecord{
		Head: record.NewHead("serving"), URL: server.url, TokenFile: server.tokenFile, Principal: principal(devserver.Requester()),
		ApproverTokenFile: server.approverFile, Approver: principal(devserver.Approver()),
	}); err != nil {
		return err
	}
	for _, line := range []sanitize.Text{
		sanitize.Format("url             %s", sanitize.Line(server.url)),
		sanitize.Format("token file      %s", sanitize.Line(server.tokenFile)),
		sanitize.Format("approver token  %s", sanitize.Line(server.approverFile)),
		sanitize.Format("principals      %s submits, %s approves", sanitize.Line(devserver.Requester().ID), sanitize.Line(devserver.Approver().ID)),
	} {
		if err := out.Line(line); err != nil {
			return err
		}
	}
	out.Note(sanitize.Static("for development only: it answers from memory, and forgets everything when it ends"))
	for _, hint := range []struct {
		what string
		argv []string
	}{
		{"try", []string{"action", "call", server.url, "cap:hermes_agent:demo:chat_stream", "--prompt", "Say hello", "--token-file", server.tokenFile}},
		{"keep it", []string{"context", "set", "dev", "--url", server.url, "--token-file", server.tokenFile, "--endpoint", "demo"}},
		{"approve", []string{"approval", "approve", server.url, "APPROVAL", "--as", devserver.Approver().ID, "--token-file", server.approverFile}},
	} {
		out.Note(sanitize.Format("%s: %s", sanitize.Line(hint.what), render.Command(append([]string{"aipctl"}, hint.argv...))))
	}
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
	approver                 bool // a second token, for who may decide about approvals
	approverOut              string
	speed                    float64
	keepAlive, approvalTTL   time.Duration
	hooks                    devserver.Hooks
}

// embedded is a running development daemon.
type embedded struct {
	url          string
	tokenFile    string
	approverFile string // empty without a second token
	server       *devserver.Server
	failed       chan error
	close        func()
}

// startDaemon listens, writes the tokens, and serves.
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
	opts := devserver.Options{
		Token: rand.Text(), PathPrefix: o.prefix, Speed: o.speed, KeepAlive: o.keepAlive, ApprovalTTL: o.approvalTTL, Hooks: o.hooks,
	}
	tokenFile, remove, err := writeToken(o.tokenOut, "token-out", opts.Token)
	if err != nil {
		_ = l.Close()
		return nil, err
	}
	approverFile, removeApprover := "", func() {}
	if o.approver {
		opts.ApproverToken = rand.Text()
		if approverFile, removeApprover, err = writeToken(o.approverOut, "approver-token-out", opts.ApproverToken); err != nil {
			remove()
			_ = l.Close()
			return nil, err
		}
	}
	server := devserver.New(opts)
	hs := &http.Server{Handler: server.Handler(), ReadHeaderTimeout: 10 * time.Second}
	e := &embedded{
		url: "http://" + l.Addr().String() + o.prefix, tokenFile: tokenFile, approverFile: approverFile,
		server: server, failed: make(chan error, 1),
	}
	go func() {
		if err := hs.Serve(l); !errors.Is(err, http.ErrServerClosed) {
			e.failed <- err
		}
	}()
	e.close = func() {
		_ = hs.Close() // ends the follow streams; there is nothing to save
		server.Close()
		remove()
		removeApprover()
	}
	return e, nil
}

// writeToken puts a token into an owner-only file, which is never an existing
// one. Flag is the name of the flag that gives the path.
func writeToken(path, flag, token string) (name string, remove func(), err error) {
	remove = func() { _ = os.Remove(path) }
	if path == "" {
		dir, err := os.MkdirTemp("", "aipctl-dev-")
		if err != nil {
			return "", nil, fault.New(fault.State, "dev.token", "no folder for the token can be made").Wrap(err).WithHint("give a file with --%s FILE", flag)
		}
		path = filepath.Join(dir, "token")
		remove = func() { _ = os.RemoveAll(dir) }
	}
	f, err := userfile.Create(path)
	if err != nil {
		return "", nil, fault.New(fault.State, "dev.token", "the token file cannot be created: %s", fileReason(err)).
			WithHint("--%s names a file that does not exist yet", flag)
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
