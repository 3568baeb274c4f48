package e2egolden_test

import (
	"context"
	"encoding/json"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/cmd"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/e2erig"
)

// Most of these tests wait for a daemon and not for a processor.
func TestMain(m *testing.M) {
	e2erig.Main(m, 6)
}

// patience ends a run that hangs, so that its test fails and says why. No test
// asserts how long anything took.
const patience = 90 * time.Second

// world is what a command finds around itself: an environment that holds
// nothing of this machine's, and a state file of its own.
type world struct {
	t        testing.TB
	env      map[string]string
	stdin    string
	terminal bool // stdin, stdout and stderr are one
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return &world{t: t, env: map[string]string{"AIPCTL_STATE": filepath.Join(t.TempDir(), "state", "state.jsonl")}}
}

// shot is what came out of one command.
type shot struct {
	code           int
	stdout, stderr string
}

func (w *world) run(args ...string) shot {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	return w.runContext(ctx, args...)
}

func (w *world) runContext(ctx context.Context, args ...string) shot {
	w.t.Helper()
	code, stdout, stderr := e2erig.Run(ctx, w.t, cmd.App{Stdin: strings.NewReader(w.stdin), StdinTTY: w.terminal, StdoutTTY: w.terminal, StderrTTY: w.terminal}, w.env, args...)
	return shot{code, stdout, stderr}
}

// state returns the records of the state file; a file that is not there has
// none.
func (w *world) state() []stateRecord {
	w.t.Helper()
	return e2erig.State[stateRecord](w.t, w.env["AIPCTL_STATE"])
}

// ofState returns the records of one type.
func (w *world) ofState(typ string) []stateRecord {
	w.t.Helper()
	return slices.DeleteFunc(w.state(), func(r stateRecord) bool { return r.Type != typ })
}

// stateRecord is a line of the state file, as far as the tests look at it.
type stateRecord struct {
	Type     string `json:"type"`
	ActionID string `json:"action_id"`
	Cursor   *struct {
		Cursor       string  `json:"cursor"`
		LastSequence *uint64 `json:"last_sequence"`
	} `json:"cursor"`
	Response *struct {
		ResponseID string `json:"response_id"`
	} `json:"response"`
	Settled *struct {
		Verdict  string            `json:"verdict"`
		ExitCode int               `json:"exit_code"`
		Checks   map[string]string `json:"checks"`
	} `json:"settled"`
}

// embedded serves an embedded daemon on loopback until the test ends.
func embedded(t testing.TB, opts devserver.Options) (*devserver.Server, string) {
	t.Helper()
	if opts.Poll == 0 {
		opts.Poll = 5 * time.Millisecond
	}
	s := devserver.New(opts)
	t.Cleanup(s.Close)
	return s, e2erig.Serve(t, s.Handler())
}

// scenario returns a scenario of the embedded daemon.
func scenario(t testing.TB, name string) devserver.Scenario {
	t.Helper()
	for _, sc := range devserver.Scenarios() {
		if sc.Name == name {
			return sc
		}
	}
	t.Fatalf("there is no scenario %s", name)
	return devserver.Scenario{}
}

// callScenario is the command that submits the demo input of a scenario.
func callScenario(sc devserver.Scenario, url string, more ...string) []string {
	return append([]string{"action", "call", url, sc.CapabilityID(), "--input", sc.Demo, "--mode", sc.Mode}, more...)
}

// posts counts the requests to the submit route.
func posts(s *devserver.Server) int {
	n := 0
	for _, r := range s.Requests() {
		if r.Method == http.MethodPost && strings.HasSuffix(r.Path, "/messages") {
			n++
		}
	}
	return n
}

// outcome is the record that ends a run, by the names that scripts rely on.
type outcome struct {
	V            int               `json:"v"`
	Type         string            `json:"type"`
	ActionID     string            `json:"action_id"`
	Verdict      string            `json:"verdict"`
	ExitCode     int               `json:"exit_code"`
	Checks       map[string]string `json:"checks"`
	AIPStatus    string            `json:"aip_status"`
	FinishReason string            `json:"finish_reason"`
	ResponseID   string            `json:"response_id"`
	Tools        []tool            `json:"tools"`
	ToolEffects  string            `json:"tool_effects"`
	Warnings     []struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"warnings"`
	ApprovalID string     `json:"approval_id"`
	Next       [][]string `json:"next"`
	Text       string     `json:"text"`
	Items      []docItem  `json:"items"`
}

// tool is a tool call, in an outcome and in a golden.
type tool struct {
	Name   string `json:"name"`
	CallID string `json:"call_id"`
	Status string `json:"status"`
}

// docItem is an item of the one document of JSON.
type docItem struct {
	Kind         string `json:"kind"`
	ItemID       string `json:"item_id"`
	OutputIndex  int    `json:"output_index"`
	ContentIndex int    `json:"content_index"`
	Choice       int    `json:"choice"`
	CallID       string `json:"call_id"`
	Name         string `json:"name"`
	Text         string `json:"text"`
}

// rec is any record of JSON Lines output.
type rec struct {
	V            int             `json:"v"`
	Type         string          `json:"type"`
	ActionID     string          `json:"action_id"`
	State        string          `json:"state"`
	Sequence     json.Number     `json:"sequence"`
	Choice       int             `json:"choice"`
	ItemID       string          `json:"item_id"`
	OutputIndex  int             `json:"output_index"`
	ContentIndex int             `json:"content_index"`
	Text         string          `json:"text"`
	Name         string          `json:"name"`
	CallID       string          `json:"call_id"`
	Status       string          `json:"status"`
	Kind         string          `json:"kind"`
	Code         string          `json:"code"`
	Event        string          `json:"event"`
	Data         json.RawMessage `json:"data"`
	line         string
}

// records reads JSON Lines output and holds it to its form: every line one
// object without control bytes, the identity first, exactly one outcome, last.
func records(t testing.TB, s shot) ([]rec, outcome) {
	t.Helper()
	if !strings.HasSuffix(s.stdout, "\n") {
		t.Fatalf("JSON Lines do not end in a line end: %q; stderr %s", tail(s.stdout), tail(s.stderr))
	}
	var all []rec
	for line := range strings.Lines(s.stdout) {
		line = strings.TrimSuffix(line, "\n")
		clean(t, "a line of JSON Lines", line, "")
		r := rec{line: line}
		if err := json.Unmarshal([]byte(line), &r); err != nil || r.V != 1 {
			t.Fatalf("a line of JSON Lines is no record (v %d, %v): %q", r.V, err, tail(line))
		}
		all = append(all, r)
	}
	last := all[len(all)-1]
	if n := len(ofType(all, "outcome")); n != 1 || last.Type != "outcome" || all[0].Type != "identity" {
		t.Fatalf("%d outcomes, from %s to %s; want an identity first and one outcome last", n, all[0].Type, last.Type)
	}
	return all, readOutcome(t, last.line)
}

func readOutcome(t testing.TB, doc string) outcome {
	t.Helper()
	var o outcome
	if err := json.Unmarshal([]byte(doc), &o); err != nil {
		t.Fatalf("the outcome cannot be read: %v in %q", err, tail(doc))
	}
	if o.V != 1 || o.Type != "outcome" {
		t.Errorf("the outcome has v %d and type %q", o.V, o.Type)
	}
	return o
}

func ofType(all []rec, typ string) []rec {
	return slices.DeleteFunc(slices.Clone(all), func(r rec) bool { return r.Type != typ })
}

// warned returns the codes of the warnings, each once, in order of their names.
func (o outcome) warned() []string {
	var codes []string
	for _, w := range o.Warnings {
		codes = append(codes, w.Code)
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

// verdictLine is the line of stderr that names the verdict.
func verdictLine(stderr string) string {
	for line := range strings.Lines(stderr) {
		if strings.HasPrefix(line, "verdict: ") {
			return strings.TrimSuffix(line, "\n")
		}
	}
	return ""
}

// verdictIs reports whether the line names this verdict and no longer word.
func verdictIs(line, verdict string) bool {
	rest, ok := strings.CutPrefix(line, "verdict: "+verdict)
	return ok && (rest == "" || strings.ContainsAny(rest[:1], " ;,"))
}

// clean fails on every byte that could drive a terminal: C0 but those in
// allowed, DEL, C1, and anything that is no UTF-8.
func clean(t testing.TB, what, s, allowed string) {
	t.Helper()
	if !utf8.ValidString(s) {
		t.Errorf("%s is no UTF-8: %q", what, tail(s))
	}
	for _, r := range s {
		if unicode.IsControl(r) && !strings.ContainsRune(allowed, r) {
			t.Errorf("%s passes the control character %q on: %q", what, r, tail(s))
			return
		}
	}
}

// until looks again and again for what nothing tells.
func until(t testing.TB, what string, there func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !there(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain for %s", what)
		}
	}
}

// tail keeps a message readable where a test compares a megabyte.
func tail(s string) string {
	if len(s) > 2000 {
		return "… " + s[len(s)-2000:]
	}
	return s
}
