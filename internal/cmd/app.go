// Package cmd is the command tree: flags become options, options become one
// call of the engine, and an error becomes a message and an exit code.
//
// Invariants kept here:
//
//   - A command binds and validates in newXCmd, and works in runX, which knows
//     no cobra.
//   - Nothing touches the disk or the network before a command runs: help,
//     completion and version work in an empty, read-only world.
//   - The process ends in one place, with a code of the exit table.
package cmd

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/config"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/spf13/cobra"
)

// Version is what the build says of itself.
type Version struct {
	Version string // semantic version, or dev
	Commit  string
	Date    string // RFC 3339
}

// App is the outside world of one run. Tests supply their own.
type App struct {
	Version   Version
	Stdin     io.Reader
	Stdout    io.Writer
	Stderr    io.Writer
	StdinTTY  bool
	StdoutTTY bool
	StderrTTY bool
	Width     func() int
	Env       func(string) string
	Now       func() time.Time
	// Executable is the name in the commands that are printed for the user.
	Executable string

	effectLimit time.Duration // of one effect check; 0 is the limit of the contract
}

// run is one execution: the application and what its flags turned out to be.
type run struct {
	App
	opts    *globalOptions
	args    []string
	exit    fault.Class
	abandon func(func())
	named   *config.Settings // once they are resolved
	demo    bool             // the daemon ends with this command, so no command leads back
	pages   map[*cobra.Command]page
}

// Main runs the program with the process's own streams and returns its exit
// code.
func Main(v Version) int {
	app := systemApp(v)
	ctx, signals := watchSignals(context.Background())
	defer signals.release()
	return app.execute(ctx, os.Args[1:], signals)
}

// Run executes one command line and returns its exit code. Signals are the
// caller's: the cause of ctx, a *fault.Error, says which one ended it.
func (a App) Run(ctx context.Context, args []string) int {
	return a.execute(ctx, args, nil)
}

func (a App) execute(ctx context.Context, args []string, signals *signals) int {
	r := &run{App: a, opts: newGlobalOptions(), args: args}
	r.abandon = func(f func()) { signals.onDelay(f) }
	root := newRootCmd(r)
	root.SetArgs(args)
	root.SetIn(a.Stdin)
	help := &helpOut{w: a.Stdout}
	root.SetOut(help)
	root.SetErr(a.Stderr)
	err := root.ExecuteContext(ctx)
	if err == nil {
		err = help.err
	}
	if err == nil {
		return r.exit.Code()
	}
	var done outcomeError
	if errors.As(err, &done) {
		return done.class.Code()
	}
	r.printError(err)
	return fault.ClassOf(err).Code()
}

// outcomeError carries an exit code out of a command that has already said
// everything.
type outcomeError struct{ class fault.Class }

func (e outcomeError) Error() string { return e.class.String() }

// ended turns a code into what a command returns.
func ended(code int) error {
	if code == 0 {
		return nil
	}
	return outcomeError{fault.Class(code)}
}

// printError shows an error that ended a command before or beside a run.
func (r *run) printError(err error) {
	format := r.opts.formatFromArgs(r.args)
	out := render.New(render.Options{
		Stdout: r.Stdout, Stderr: r.redacted(r.Stderr), Format: format, StderrTTY: r.StderrTTY, StdoutTTY: r.StdoutTTY,
		Color: r.opts.colorMode(), Env: r.Env, Width: r.Width, Now: r.Now, Verbose: r.opts.verbose,
	})
	out.Error(err)
}

// usageError begins a fault of the command line. It is no error before it says
// what to do instead, so that the compiler sees to it that each one does.
func usageError(code, format string, args ...any) hintless {
	return hintless{fault.New(fault.Usage, code, format, args...)}
}

// hintless is a fault that lacks a next step.
type hintless struct{ f *fault.Error }

// WithHint makes an error of it.
func (h hintless) WithHint(format string, args ...any) *fault.Error {
	return h.f.WithHint(format, args...)
}

// group makes a command that only holds others: cobra alone would answer a
// misspelt child with help and exit 0.
func group(use, short, long string, children ...*cobra.Command) *cobra.Command {
	c := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return cmd.Help()
		},
	}
	c.AddCommand(children...)
	return c
}

func unknownCommand(parent *cobra.Command, name string) error {
	f := usageError("usage.command", "%q is no command of `%s`", name, parent.CommandPath())
	if below := commandsNamed(parent, name); len(below) > 0 {
		return f.WithHint("did you mean `%s`?", strings.Join(below, "` or `"))
	}
	if near := nearest(name, childNames(parent)); near != "" {
		return f.WithHint("did you mean `%s %s`?", parent.CommandPath(), near)
	}
	return f.WithHint("see `%s --help`", parent.CommandPath())
}

// commandsNamed finds the commands of that very name in the groups below parent,
// for who leaves the group out.
func commandsNamed(parent *cobra.Command, name string) []string {
	var paths []string
	for _, group := range parent.Commands() {
		for _, c := range group.Commands() {
			if c.IsAvailableCommand() && c.Name() == name {
				paths = append(paths, c.CommandPath())
			}
		}
	}
	return paths
}

func childNames(c *cobra.Command) []string {
	var names []string
	for _, child := range c.Commands() {
		if child.IsAvailableCommand() {
			names = append(names, child.Name())
		}
	}
	return names
}

// nearest returns the candidate closest to name, when one is close at all.
func nearest(name string, candidates []string) string {
	best, bestDistance := "", max(2, len(name)/3)+1
	for _, c := range candidates {
		d := distance(name, c)
		if strings.HasPrefix(c, name) && name != "" {
			d = min(d, 1)
		}
		if d < bestDistance {
			best, bestDistance = c, d
		}
	}
	return best
}

// distance counts the single-letter edits between two words.
func distance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := 1; i <= len(a); i++ {
		diagonal := row[0]
		row[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			diagonal, row[j] = row[j], min(row[j]+1, row[j-1]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}
