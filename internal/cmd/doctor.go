package cmd

import (
	"cmp"
	"context"
	"runtime"
	"time"

	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/config"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/spf13/cobra"
)

// patience is how long one check of the doctor may take.
const patience = 5 * time.Second

func newDoctorCmd(r *run) *cobra.Command {
	var raw string
	return r.leaf(&cobra.Command{
		Use: "doctor [URL]",
		Args: func(cmd *cobra.Command, args []string) error {
			var rest []string
			raw, rest = takeURL(args)
			return argCount(cmd, rest, 0, 0, "")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return r.doctor(cmd.Context(), raw) },
	}, page{
		Purpose: "Look at everything that a call needs, and say how to mend it",
		About: `Looks, in this order, at the contexts, the daemon's URL, the token, the CA
file, TLS and the certificate, whether the daemon is ready, the clock against
the daemon's, what the token may read, the catalogue, and the state file. Each
gets a line that says ok, warn or fail, and below it what mends it.

A check takes five seconds at most. What cannot be looked at, because of a
failure before it, is named at the end. The exit code is 0 when nothing fails,
else that of the first failure.`,
		Never: `It never changes or makes a file, never submits anything and cancels nothing.
Whether the token may submit can only be told by submitting, so it does not say.`,
		Examples: []example{
			{"the daemon that calls go to", "aipctl doctor"},
			{"before anything is set up", "aipctl doctor https://aip.example.org --token-file token"},
			{"what fails, for a script", "aipctl doctor -o json --jq '.checks[] | select(.status==\"fail\") | .name'"},
		},
		Exits: []exit{
			{fault.Accepted, "nothing fails; there may be warnings"},
			{fault.Usage, "the contexts, the URL or the CA file cannot be used"},
			{fault.Unavailable, "the daemon is not reached, not ready, or something else answers; its certificate does not hold"},
			{fault.Auth, "the token is missing where it is wanted, too open, refused, or lacks a scope"},
			{fault.Rejected, "the clocks differ so much that the daemon refuses every call"},
			{fault.State, "the state file is damaged, locked, or cannot be read or written"},
		},
		See:     []string{"state check", "capability list", "context show", "help exit-codes"},
		Without: []flagGroup{waitingFlags, answerFlags},
	})
}

// The words of a check.
const (
	checkOK   = "ok"
	checkWarn = "warn"
	checkFail = "fail"
)

// doctorCheck is what the doctor found at one place.
type doctorCheck struct {
	Name   string `json:"name"`           // what was looked at
	Status string `json:"status"`         // how it is
	Detail string `json:"detail"`         // a clause for a person
	Code   string `json:"code,omitempty"` // stable dotted code of a warning or a failure
	Fix    string `json:"fix,omitempty"`  // what mends it, with the command where there is one
	Exit   int    `json:"exit,omitempty"` // exit code that the failure stands for
}

// doctorRecord is the end of what the doctor says.
type doctorRecord struct {
	record.Head
	OK         bool          `json:"ok"`                    // nothing fails
	ExitCode   int           `json:"exit_code"`             // that of the first failure; 0 where there is none
	Checks     []doctorCheck `json:"checks,omitempty"`      // with -o json, in the order in which they were made
	NotChecked []string      `json:"not_checked,omitempty"` // what a failure stood in the way of
}

// doctorCheckRecord is one check as a record of its own, with -o jsonl.
type doctorCheckRecord struct {
	record.Head
	doctorCheck
}

// doctor is one examination.
type doctor struct {
	r      *run
	out    *render.Renderer
	report doctorRecord
	err    error // of stdout

	settings config.Settings
	token    identity.Token
	source   identity.TokenSource // empty when the token cannot be used
	client   *client.Client
}

// say adds a check, and shows it at once.
func (x *doctor) say(c doctorCheck) {
	x.report.Checks = append(x.report.Checks, c)
	if x.err != nil {
		return
	}
	if x.r.opts.output == render.JSONL.String() {
		x.err = x.out.Record(doctorCheckRecord{record.NewHead("check"), c})
		return
	}
	rows := [][]sanitize.Text{{sanitize.Line(pad(c.Status, len(checkWarn))), sanitize.Line(pad(c.Name, 9)), sanitize.LineMax(c.Detail, sheetValue)}}
	if c.Fix != "" {
		rows = append(rows, []sanitize.Text{sanitize.Static(""), sanitize.Static(""), sanitize.LineMax("fix: "+c.Fix, sheetValue)})
	}
	x.err = x.out.Table(rows...)
}

func (x *doctor) ok(name, detail string) {
	x.say(doctorCheck{Name: name, Status: checkOK, Detail: detail})
}

func (x *doctor) warn(name, code, detail, fix string) {
	x.say(doctorCheck{Name: name, Status: checkWarn, Code: code, Detail: detail, Fix: fix})
}

// fail adds a failure. The first one decides about the exit code.
func (x *doctor) fail(name string, err error, fix string) {
	f := fault.As(err)
	if f == nil {
		f = fault.New(fault.Internal, "doctor", "%s", err)
	}
	if x.report.ExitCode == 0 {
		x.report.ExitCode = f.Class.Code()
	}
	x.say(doctorCheck{Name: name, Status: checkFail, Code: f.Code, Detail: f.Message, Fix: cmp.Or(fix, f.Hint), Exit: f.Class.Code()})
}

// skip names checks that cannot be made.
func (x *doctor) skip(names ...string) {
	x.report.NotChecked = append(x.report.NotChecked, names...)
}

// The names of the checks.
const (
	inContexts  = "contexts"
	inURL       = "url"
	inToken     = "token"
	inCA        = "ca file"
	inTLS       = "tls"
	inReady     = "ready"
	inClock     = "clock"
	inAccess    = "access"
	inApprovals = "approvals"
	inCatalogue = "catalogue"
	inState     = "state"
)

func (r *run) doctor(ctx context.Context, raw string) error {
	x := &doctor{r: r, out: r.renderer()}
	x.report.Head = record.NewHead("doctor")
	x.contexts()
	if x.daemon(raw) {
		defer x.client.Close()
		x.network(ctx)
	}
	x.state(ctx)
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	x.report.OK = x.report.ExitCode == 0
	if err := x.end(); err != nil {
		return err
	}
	return ended(x.report.ExitCode)
}

// end says what was not looked at, and in JSON everything.
func (x *doctor) end() error {
	if x.err != nil {
		return x.err
	}
	doc := x.report
	if x.r.opts.output == render.JSONL.String() {
		doc.Checks = nil
	}
	if err := x.out.Record(doc); err != nil {
		return err
	}
	if len(doc.NotChecked) == 0 {
		return nil
	}
	return x.out.Line(sanitize.Format("not looked at: %s", sanitize.Line(listedAll(doc.NotChecked))))
}

// contexts looks at the file of the contexts.
func (x *doctor) contexts() {
	c, err := x.r.loadContexts()
	switch {
	case err != nil:
		x.fail(inContexts, err, "")
	case len(c.Warnings) > 0:
		x.warn(inContexts, "context.unused", listedAll(c.Warnings), "`aipctl context list` shows what is used")
	case len(c.Names()) == 0:
		x.ok(inContexts, "there are none, and none is needed")
	case c.Current == "":
		x.ok(inContexts, listedAll(c.Names())+"; none is the current one")
	default:
		x.ok(inContexts, listedAll(c.Names())+"; the current one is "+c.Current)
	}
}

// daemon looks at what names and opens the daemon, without asking it anything.
// It says whether the daemon can be asked.
func (x *doctor) daemon(raw string) bool {
	network := []string{inTLS, inReady, inClock, inAccess, inApprovals, inCatalogue}
	s, err := x.r.settings(raw, false)
	if err == nil && s.URL.Text == "" {
		err = noDaemon(s)
	}
	base, perr := client.ParseBase(s.URL.Text)
	if err == nil {
		err = perr
	}
	if err != nil {
		x.fail(inURL, err, "")
		x.skip(append([]string{inToken, inCA}, network...)...)
		return false
	}
	x.settings = s
	for _, w := range s.Warnings {
		x.warn(inURL, "settings", w, "")
	}
	source := x.r.tokenSource(s)
	token, terr := source.Load()
	if terr == nil {
		x.token, x.source = token, source
	}
	open := base.Scheme == "http" && !client.Loopback(base)
	where := s.URL.Text + ", from " + s.URL.From
	switch {
	case open && !token.IsZero() && !x.r.opts.allowPlaintext:
		x.fail(inURL, usageError("url.plaintext_token", "a token would cross http:// to a host that is not this machine: %s", where).
			WithHint("use https://, or give --allow-plaintext if the path to the host is safe"), "")
		x.skip(append([]string{inToken, inCA}, network...)...)
		return false
	case open:
		x.warn(inURL, "url.plaintext", where+": nothing on the way is encrypted", "use https://")
	default:
		x.ok(inURL, where)
	}
	x.sayToken(source, token, terr)
	x.client, err = x.r.newClient(base, x.source, x.token, s.CAFile.Text, x.out)
	if err != nil {
		x.fail(inCA, err, "")
		x.skip(network...)
		return false
	}
	if s.CAFile.Text != "" {
		x.ok(inCA, s.CAFile.Text+", from "+s.CAFile.From)
	}
	return true
}

// sayToken says what became of the token. One that cannot be used is not sent,
// and the rest is looked at without.
func (x *doctor) sayToken(source identity.TokenSource, token identity.Token, err error) {
	from := "from " + x.settings.TokenFile.From
	switch {
	case err != nil:
		x.fail(inToken, err, "")
	case token.IsZero():
		x.warn(inToken, "token.none", "there is none, so only what a daemon shows to everybody can be read", "write it to an owner-only file (chmod 600), and name that with --token-file FILE or in a context")
	case source.File == "":
		x.ok(inToken, from)
	default:
		x.ok(inToken, source.File+", "+from)
	}
}

// setClock is what sets the clock of this machine.
func setClock() string {
	switch runtime.GOOS {
	case "windows":
		return "set the clock: `w32tm /resync`"
	case "darwin":
		return "set the clock: `sudo sntp -sS time.apple.com`"
	}
	return "set the clock: `sudo timedatectl set-ntp true`"
}
