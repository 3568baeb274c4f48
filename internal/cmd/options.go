package cmd

import (
	"slices"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/cursor"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/jq"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// globalOptions are the flags of every network command.
type globalOptions struct {
	url            string
	context        string
	tokenFile      string
	tokenFilePeer  string
	caFile         string
	caFilePeer     string
	stateFile      string
	output         string
	color          string
	quiet          bool
	verbose        bool
	debugHTTP      bool
	connectTimeout time.Duration
	idleTimeout    time.Duration
	wait           time.Duration
	maxEventBytes  int64
	maxResultBytes int64
	allowPlaintext bool
	yes            bool
	includeRaw     bool
	showLabels     bool
	showErrors     bool
	jq             string

	filter *jq.Filter     // what --jq says; nil without it
	flags  *pflag.FlagSet // to tell a flag that was given from its default
}

func newGlobalOptions() *globalOptions { return &globalOptions{} }

func (o *globalOptions) bind(root *cobra.Command) {
	f := root.PersistentFlags()
	o.flags = f
	f.StringVar(&o.url, "url", "", "the daemon's `URL`, a path prefix included (AIP_URL)")
	f.StringVar(&o.context, "context", "", "the context, by its `NAME`, that fills in what is not given (AIPCTL_CONTEXT)")
	f.StringVar(&o.tokenFile, "token-file", "", "owner-only `FILE` with the bearer token (AIP_TOKEN_FILE)")
	f.StringVar(&o.tokenFilePeer, "native-bearer-token-file", "", "the same as --token-file")
	f.StringVar(&o.caFile, "ca-file", "", "PEM `FILE` with certificates to trust beside the system's")
	f.StringVar(&o.caFilePeer, "native-tls-ca-file", "", "the same as --ca-file")
	f.StringVar(&o.stateFile, "state", "", "the state `FILE`, or off (AIPCTL_STATE)")
	f.VarP(oneOf(&o.output, "text", "json", "jsonl"), "output", "o", "what stdout carries: the answer, one document, or a record a line")
	f.Var(oneOf(&o.color, "auto", "always", "never"), "color", "when to colour; auto asks the terminal and the environment")
	f.BoolVarP(&o.quiet, "quiet", "q", false, "only errors, and the end of what was not accepted")
	f.BoolVarP(&o.verbose, "verbose", "v", false, "say more, on stderr")
	f.BoolVar(&o.debugHTTP, "debug-http", false, "log each HTTP exchange on stderr, redacted")
	f.DurationVar(&o.connectTimeout, "connect-timeout", 10*time.Second, "for a connection, and for TLS on it")
	f.DurationVar(&o.idleTimeout, "idle-timeout", 45*time.Second, "longest silence of a stream: three keep-alives")
	f.DurationVar(&o.wait, "wait", 0, "how long to wait for the action to end")
	f.Int64Var(&o.maxEventBytes, "max-event-bytes", 8<<20, "largest event of a stream")
	f.Int64Var(&o.maxResultBytes, "max-result-bytes", 512<<20, "largest result")
	f.BoolVar(&o.allowPlaintext, "allow-plaintext", false, "let a token cross http:// to a host that is not this machine")
	f.BoolVar(&o.yes, "yes", false, "answer yes where a command would ask")
	f.BoolVar(&o.includeRaw, "include-raw", false, "keep raw_data in chunk records")
	f.StringVar(&o.jq, "jq", "", "print what this jq `EXPRESSION` makes of each record; needs -o json or jsonl")
	f.BoolVar(&o.showLabels, "show-labels", false, "show tool labels, which are raw commands, without a terminal too")
	f.BoolVar(&o.showErrors, "show-provider-errors", false, "show messages of provider errors without a terminal too")
}

func (o *globalOptions) changed(name string) bool {
	f := o.flags.Lookup(name)
	return f != nil && f.Changed
}

// waitGiven is --wait when it was given; nil otherwise.
func (o *globalOptions) waitGiven() *time.Duration {
	if !o.changed("wait") {
		return nil
	}
	w := o.wait
	return &w
}

func (o *globalOptions) colorMode() render.ColorMode {
	m, err := render.ParseColor(o.color)
	if err != nil {
		return render.ColorMode(0)
	}
	return m
}

// formatFromArgs finds the output format for an error that came before the
// flags were read.
func (o *globalOptions) formatFromArgs(args []string) render.Format {
	name := o.output
	if i := slices.Index(args, "--"); i >= 0 {
		args = args[:i]
	}
	for i, a := range args {
		if value, ok := strings.CutPrefix(a, "--output="); ok {
			name = value
			continue
		}
		value, ok := outputLetter(a)
		switch {
		case a == "--output", ok && value == "":
			if i+1 < len(args) {
				name = args[i+1]
			}
		case ok:
			name = value
		}
	}
	f, err := render.ParseFormat(name)
	if err != nil {
		return render.Text
	}
	return f
}

// outputLetter reports whether an argument has the flag -o, which may stand
// behind other letters as in -vo json, and what stands right behind it.
func outputLetter(arg string) (value string, ok bool) {
	if !strings.HasPrefix(arg, "-") || strings.HasPrefix(arg, "--") {
		return "", false
	}
	letters, value, ok := strings.Cut(arg[1:], "o")
	if !ok || strings.Trim(letters, "hqv") != "" {
		return "", false
	}
	return strings.TrimPrefix(value, "="), true
}

// compileFilter reads --jq before anything is done, so that a wrong expression
// costs nothing.
func (o *globalOptions) compileFilter() error {
	if !o.changed("jq") {
		return nil
	}
	if o.output == render.Text.String() {
		return usageError("usage.jq", "--jq works on records, and text has none").
			WithHint("add -o jsonl for one record a line, or -o json for one document")
	}
	var err error
	o.filter, err = jq.Compile(o.jq)
	return err
}

// check refuses values that no command can work with.
func (o *globalOptions) check() error {
	if err := o.checkFiles(); err != nil {
		return err
	}
	return o.checkValues()
}

// checkValues is the part of check that holds for `context set` too, where an
// empty file name means something.
func (o *globalOptions) checkValues() error {
	for name, d := range map[string]time.Duration{"connect-timeout": o.connectTimeout, "idle-timeout": o.idleTimeout} {
		if d <= 0 {
			return usageError("usage.duration", "--%s must be longer than nothing, not %s", name, d).
				WithHint("write a time such as --%s 45s, or leave it out", name)
		}
	}
	if o.wait < 0 {
		return usageError("usage.duration", "--wait cannot be negative").
			WithHint("write --wait 0 not to wait, a time such as --wait 2m, or leave it out")
	}
	if o.maxEventBytes < 1024 || o.maxEventBytes > 1<<30 {
		return usageError("usage.bytes", "--max-event-bytes must lie between 1024 and 1073741824").
			WithHint("leave it out for 8388608 (8 MiB)")
	}
	if o.maxResultBytes < 1024 {
		return usageError("usage.bytes", "--max-result-bytes must be at least 1024").
			WithHint("leave it out for 536870912 (512 MiB)")
	}
	return o.compileFilter()
}

// fileFlags are the flags for one file each, with their second names.
var fileFlags = [][2]string{{"token-file", "native-bearer-token-file"}, {"ca-file", "native-tls-ca-file"}}

// checkFiles refuses names that are empty, and two that contradict each other.
func (o *globalOptions) checkFiles() error {
	for _, pair := range fileFlags {
		for _, name := range pair {
			if o.changed(name) && o.flags.Lookup(name).Value.String() == "" {
				return usageError("usage.file", "--%s was given without a file name", name).
					WithHint("a shell variable may be empty; give a file, or leave the flag out")
			}
		}
	}
	if o.changed("context") && o.context == "" {
		return usageError("usage.context", "--context was given without a name").
			WithHint("a shell variable may be empty; give a name, or leave the flag out")
	}
	return o.checkTwins()
}

// checkTwins refuses two different files for one purpose.
func (o *globalOptions) checkTwins() error {
	for _, pair := range fileFlags {
		if a, b := o.flags.Lookup(pair[0]), o.flags.Lookup(pair[1]); a.Changed && b.Changed && a.Value.String() != b.Value.String() {
			return usageError("usage.file", "--%s and --%s name two different files, and mean the same", pair[0], pair[1]).
				WithHint("give one of them")
		}
	}
	return nil
}

// renderer makes the sink of this run.
func (r *run) renderer() *render.Renderer {
	format, _ := render.ParseFormat(r.opts.output)
	out := render.New(render.Options{
		Stdout: r.Stdout, Stderr: r.redacted(r.Stderr), Format: format, StdoutTTY: r.StdoutTTY, StderrTTY: r.StderrTTY,
		Color: r.opts.colorMode(), Env: r.Env, Quiet: r.opts.quiet, Verbose: r.opts.verbose,
		ShowLabels: r.opts.showLabels, ShowProviderErrors: r.opts.showErrors, IncludeRaw: r.opts.includeRaw,
		Filter: r.opts.filter, Width: r.Width, Now: r.Now,
	})
	r.abandon(out.Abandon)
	return out
}

// known is what a reading command knows of the past: without a readable
// state file it works all the same, and says so.
type known struct {
	file   *state.File
	view   *state.View
	report state.Report
	flag   string // value of --state to repeat in commands
	warn   string // why no cursor can be kept
}

func (r *run) readState(cmd *cobra.Command) known {
	f, flag, err := r.journal()
	k := known{file: f, flag: flag}
	if err != nil {
		k.file, k.warn = nil, fault.As(err).Message
		return k
	}
	if f == nil {
		return k
	}
	view, report, err := f.Load(cmd.Context())
	if err != nil {
		k.file, k.warn = nil, fault.As(err).Message
		return k
	}
	k.view, k.report = view, report
	return k
}

func (k known) action(id string) *state.Action { return k.view.Action(id) }

// config puts a run of the engine together.
func (r *run) config(d *daemon, out engine.Sink, k known, actionID string, chunks bool) engine.Config {
	cfg := engine.Config{
		Net: d.client, Approvals: d.client, Sink: out, Now: r.Now,
		MessageID: identity.NewMessageID,
		Binding:   r.binding(d, actionID, chunks),
		Idle:      r.opts.idleTimeout, MaxEventBytes: int(r.opts.maxEventBytes), Raw: r.opts.includeRaw, Echoes: d.client.Echoes,
		CursorAtEnd: r.opts.output == "json", Document: r.opts.output == "json",
	}
	cfg.RequiredTools, cfg.RecordedChecks = recordedTools(k, actionID), recordedChecks(k, actionID)
	if !r.demo {
		cfg.Commands = r.commands(d, k.flag)
	}
	if k.file != nil {
		cfg.Journal = k.file
		cfg.StateFile = k.file.Path()
	}
	return cfg
}

func (r *run) binding(d *daemon, actionID string, chunks bool) cursor.Binding {
	return engine.BindingFor(d.url, d.principal, actionID, chunks)
}
