package render

import (
	"context"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/jq"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/verdict"
)

// Format is the form of what goes to stdout.
type Format int

// The formats, as the flag --output names them.
const (
	Text  Format = iota // the answer alone
	JSON                // one document at the end
	JSONL               // one record a line
)

// String returns the name that [ParseFormat] reads.
func (f Format) String() string {
	switch f {
	case JSON:
		return "json"
	case JSONL:
		return "jsonl"
	default:
		return "text"
	}
}

// ParseFormat reads text, json or jsonl. Any other name is a *fault.Error of
// class fault.Usage.
func ParseFormat(s string) (Format, error) {
	for _, f := range []Format{Text, JSON, JSONL} {
		if s == f.String() {
			return f, nil
		}
	}
	return Text, fault.New(fault.Usage, "usage.output", "%q is no output format", s).
		WithHint("use text, json or jsonl")
}

// Options say where and how to show things. The zero Options show text to
// nobody: a nil writer discards.
type Options struct {
	Stdout, Stderr       io.Writer
	Format               Format
	StdoutTTY, StderrTTY bool
	Color                ColorMode
	Env                  func(string) string // reads the environment; nil reads as empty
	Quiet                bool                // only errors, and the end of what was not accepted
	Verbose              bool
	ShowLabels           bool             // labels of tools without a terminal too; they are raw commands
	ShowProviderErrors   bool             // messages of provider errors without a terminal too
	IncludeRaw           bool             // raw_data in chunk records
	Filter               *jq.Filter       // what is printed of each record; nil is all of it
	Width                func() int       // of the terminal, in cells; nil and 0 read as 80
	Now                  func() time.Time // nil is time.Now
}

// defaultWidth is assumed, in cells, where the terminal does not tell.
const defaultWidth = 80

func (o Options) withDefaults() Options {
	if o.Stdout == nil {
		o.Stdout = io.Discard
	}
	if o.Stderr == nil {
		o.Stderr = io.Discard
	}
	if o.Env == nil {
		o.Env = func(string) string { return "" }
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	width := o.Width
	o.Width = func() int {
		if width != nil {
			if n := width(); n > 0 {
				return n
			}
		}
		return defaultWidth
	}
	return o
}

// animated reports whether a line may be redrawn on stderr. A terminal that is
// a CI log in truth says so with CI, and a dumb one cannot go back in a line.
func (o Options) animated() bool {
	ci := o.Env("CI")
	return o.StderrTTY && !o.Quiet && o.Env("TERM") != "dumb" && (ci == "" || ci == "0" || ci == "false")
}

// mode is one format's way to show a run. Its methods are called under the
// lock of the Renderer.
type mode interface {
	Identity(record.Identity) error
	State(record.State) error
	Event(record.Event) error
	Deliver(record.Delivery) error
	Warning(record.Warning) error
	Gap(record.Gap) error
	Outcome(*verdict.Outcome) error
	// tick is the passing of time.
	tick(now time.Time)
	// end completes what was begun, when no outcome will come.
	end() error
}

// Renderer shows one run. It is the sink of the engine, and it also shows
// what the smaller commands have to say. It is safe for concurrent use; calls
// that show a run are expected in the order of the run.
//
// Methods that write to stdout return nil, or a *fault.Error of class
// fault.BrokenPipe (the reader went away) or fault.Output (stdout did not take
// everything). Errors of stderr are ignored: there is nowhere to report them.
type Renderer struct {
	mu    sync.Mutex
	opts  Options
	con   *console
	mode  mode
	ended bool
}

// New returns a Renderer; it writes nothing yet.
func New(o Options) *Renderer {
	o = o.withDefaults()
	r := &Renderer{opts: o, con: newConsole(o)}
	switch o.Format {
	case JSON:
		r.mode = &document{con: r.con, status: status{con: r.con, now: o.Now}}
	case JSONL:
		r.mode = &lines{con: r.con, raw: o.IncludeRaw, now: o.Now}
	default:
		r.mode = newNarration(o, r.con)
	}
	return r
}

// Identity shows what the action is called. It is the first call of a run.
func (r *Renderer) Identity(v record.Identity) error {
	return r.show(func() error { return r.mode.Identity(v) })
}

// State shows a change of the client's own work.
func (r *Renderer) State(v record.State) error {
	return r.show(func() error { return r.mode.State(v) })
}

// Event shows a lifecycle event of the action.
func (r *Renderer) Event(v record.Event) error {
	return r.show(func() error { return r.mode.Event(v) })
}

// Deliver shows one chunk. Once an error came back, every later call returns
// it again, so that no cursor moves past what was not written.
func (r *Renderer) Deliver(v record.Delivery) error {
	return r.show(func() error { return r.mode.Deliver(v) })
}

// Warning shows something that changes no verdict.
func (r *Renderer) Warning(v record.Warning) error {
	return r.show(func() error { return r.mode.Warning(v) })
}

// Gap shows a run of sequences that nothing delivered.
func (r *Renderer) Gap(v record.Gap) error {
	return r.show(func() error { return r.mode.Gap(v) })
}

// Outcome ends the run; every later call that would show some of it does
// nothing. Where stdout has failed, also in this very call, JSON and JSON
// Lines write the outcome to stderr, without text and items, as one line, and
// the exit code that is shown is that of the failure, unless a signal had ended
// the run. The error is the first one that stdout gave. o is not changed.
func (r *Renderer) Outcome(o *verdict.Outcome) error {
	return r.show(func() error {
		r.ended = true
		r.con.stop()
		return r.mode.Outcome(o)
	})
}

// Close ends a run that has no outcome: it takes the status line away and
// completes the last line of text. After Outcome it does nothing.
func (r *Renderer) Close() error {
	return r.show(func() error {
		r.ended = true
		r.con.stop()
		return r.mode.end()
	})
}

func (r *Renderer) show(f func() error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ended {
		return nil
	}
	return f()
}

// Tick tells the time to what runs by it: the clock in the status line, and
// the heartbeat, which comes when stderr was silent for a minute. Call it about
// once a second.
func (r *Renderer) Tick(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.ended {
		r.mode.tick(now)
	}
}

// Run calls Tick once a second until ctx is done.
func (r *Renderer) Run(ctx context.Context) {
	t := time.NewTicker(time.Second)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
			r.Tick(r.opts.Now())
		}
	}
}

// Abandon says that nobody waits for the reader of stdout any more. A write
// that he does not take within a moment then returns to its caller with a
// *fault.Error of class fault.Output, the system call is left behind, and
// stdout is not written again; what it had still to write may appear or not. A
// reader who reads gets everything as before. It is for the moment when the
// user has asked to stop and the run does not come to an end: it may be stuck,
// or wait for a cancellation. It does not wait for anything itself.
func (r *Renderer) Abandon() { r.con.out.abandon() }

// placeOf finds out what it can about where the two streams end up. A writer
// tells with a Stat method, as an *os.File has one; one that wraps a file can
// pass it on.
func placeOf(o Options) place {
	if o.StdoutTTY && o.StderrTTY {
		return together
	}
	out, ok := stat(o.Stdout)
	if !ok {
		return unsure
	}
	if sameFile(o.Stdout, o.Stderr) {
		return together
	}
	if out.Mode().IsRegular() || out.Mode()&fs.ModeCharDevice != 0 && !o.StdoutTTY {
		return apart
	}
	return unsure
}

// sameFile reports whether two writers are known to be one file or terminal.
func sameFile(a, b io.Writer) bool {
	x, ok := stat(a)
	y, also := stat(b)
	return ok && also && os.SameFile(x, y)
}

func stat(w io.Writer) (fs.FileInfo, bool) {
	f, ok := w.(interface{ Stat() (fs.FileInfo, error) })
	if !ok {
		return nil, false
	}
	info, err := f.Stat()
	return info, err == nil
}
