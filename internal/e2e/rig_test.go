package e2e_test

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/cmd"
	"github.com/aipctl/aipctl/internal/e2erig"
)

// Most of these tests wait for a daemon and not for a processor, so more of
// them run side by side than there are processors. A -parallel on the command
// line wins.
func TestMain(m *testing.M) {
	e2erig.Main(m, 8)
}

// patience ends a run that hangs, so that its test fails and says why. No test
// asserts how long anything took.
const patience = 60 * time.Second

// world is what a command finds around itself: an environment that holds
// nothing of this machine's, and a state file of its own.
type world struct {
	t        testing.TB
	env      map[string]string
	now      func() time.Time
	terminal bool   // stdout and stderr are one
	typed    string // on stdin, which is a terminal where the others are
}

func newWorld(t testing.TB) *world {
	t.Helper()
	state := filepath.Join(t.TempDir(), "state", "state.jsonl")
	return &world{t: t, env: map[string]string{"AIPCTL_STATE": state}, now: time.Now}
}

// shot is what came out of one command.
type shot struct {
	code           int
	stdout, stderr string
}

// run runs one command line in this process.
func (w *world) run(args ...string) shot {
	w.t.Helper()
	ctx, stop := context.WithTimeout(w.t.Context(), patience)
	defer stop()
	return w.runContext(ctx, args...)
}

func (w *world) runContext(ctx context.Context, args ...string) shot {
	w.t.Helper()
	code, stdout, stderr := e2erig.Run(ctx, w.t, cmd.App{
		Stdin: strings.NewReader(w.typed), StdinTTY: w.terminal && w.typed != "", StdoutTTY: w.terminal, StderrTTY: w.terminal, Now: w.now,
	}, w.env, args...)
	return shot{code, stdout, stderr}
}

// follow comes back to the action of a played case.
func (w *world) follow(p *aiptest.Player, more ...string) shot {
	w.t.Helper()
	return w.run(append([]string{"action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks"}, more...)...)
}

// stateRecord is a line of the state file, as far as the tests look at it.
type stateRecord struct {
	Type     string `json:"type"`
	ActionID string `json:"action_id"`
	Intent   *struct {
		IdempotencyKey string `json:"idempotency_key"`
		InputHash      string `json:"input_hash"`
	} `json:"intent"`
	NotSent *struct {
		Class     int    `json:"class"`
		InputHash string `json:"input_hash"`
	} `json:"not_sent"`
	Cursor *struct {
		Cursor       string  `json:"cursor"`
		LastSequence *uint64 `json:"last_sequence"`
	} `json:"cursor"`
	Response *struct {
		ResponseID string `json:"response_id"`
	} `json:"response"`
	Settled *struct {
		Verdict  string `json:"verdict"`
		ExitCode int    `json:"exit_code"`
		Closed   bool   `json:"closed"`
	} `json:"settled"`
}

// state returns the records of the state file that have the type; a file that
// is not there has none. A line that is no record fails the test.
func (w *world) state(typ string) []stateRecord {
	w.t.Helper()
	all := e2erig.State[stateRecord](w.t, w.env["AIPCTL_STATE"])
	return slices.DeleteFunc(all, func(r stateRecord) bool { return r.Type != typ })
}

// types returns the types of all records of the state file, in their order.
func (w *world) types() []string {
	w.t.Helper()
	src, err := os.ReadFile(w.env["AIPCTL_STATE"])
	if err != nil {
		w.t.Fatalf("state file: %v", err)
	}
	var out []string
	for line := range strings.Lines(string(src)) {
		var r stateRecord
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			w.t.Fatalf("state file: %v in line %q", err, line)
		}
		out = append(out, r.Type)
	}
	return out
}

// checks are the names of the checks in an outcome, with their results.
type checks map[string]string

// accepted are the checks of a stream that ended well, with exceptions.
func accepted(but checks) checks {
	c := checks{
		"aip_status": "pass", "terminal": "pass", "truncated": "pass", "finish_reason": "pass",
		"provider_error": "pass", "integrity": "pass", "required_tools": "not_applicable", "effect_check": "not_applicable",
	}
	for name, result := range but {
		c[name] = result
	}
	return c
}

// outcome is the record that ends a run, by the names that scripts rely on.
type outcome struct {
	V             int    `json:"v"`
	Type          string `json:"type"`
	ActionID      string `json:"action_id"`
	Verdict       string `json:"verdict"`
	ExitCode      int    `json:"exit_code"`
	Checks        checks `json:"checks"`
	AIPStatus     string `json:"aip_status"`
	ErrorCode     string `json:"error_code"`
	FinishReason  string `json:"finish_reason"`
	ProviderError *struct {
		Type string `json:"type"`
		Code string `json:"code"`
	} `json:"provider_error"`
	ResponseID string          `json:"response_id"`
	TextBytes  int             `json:"text_bytes"`
	Usage      json.RawMessage `json:"usage"`
	Tools      []struct {
		Name   string `json:"name"`
		CallID string `json:"call_id"`
		Status string `json:"status"`
	} `json:"tools"`
	ToolEffects string `json:"tool_effects"`
	Warnings    []struct {
		Code    string `json:"code"`
		Message string `json:"message"`
	} `json:"warnings"`
	Reconnects int        `json:"reconnects"`
	Duplicates int        `json:"duplicates"`
	Gaps       int        `json:"gaps"`
	Cursor     string     `json:"cursor"`
	Next       [][]string `json:"next"`
	Text       string     `json:"text"`
}

// warned returns the codes of the warnings.
func (o outcome) warned() []string {
	var codes []string
	for _, w := range o.Warnings {
		codes = append(codes, w.Code)
	}
	return codes
}

// tools spells the tools as name/call id/status, in their order.
func (o outcome) tools() []string {
	var out []string
	for _, t := range o.Tools {
		out = append(out, t.Name+"/"+t.CallID+"/"+t.Status)
	}
	return out
}

// rec is any record of JSON Lines output.
type rec struct {
	V        int             `json:"v"`
	Type     string          `json:"type"`
	ActionID string          `json:"action_id"`
	State    string          `json:"state"`
	Sequence json.Number     `json:"sequence"`
	Choice   int             `json:"choice"`
	ItemID   string          `json:"item_id"`
	Index    int             `json:"output_index"`
	Text     string          `json:"text"`
	Name     string          `json:"name"`
	CallID   string          `json:"call_id"`
	Status   string          `json:"status"`
	Label    string          `json:"label"`
	Kind     string          `json:"kind"`
	Code     string          `json:"code"`
	Message  string          `json:"message"`
	From     json.Number     `json:"from"`
	To       json.Number     `json:"to"`
	Data     json.RawMessage `json:"data"`
	line     string
}

// records reads JSON Lines output and holds it to its form: every line one
// object with no control byte in it, the identity first, exactly one outcome,
// and that one last.
func records(t testing.TB, stdout string) ([]rec, outcome) {
	t.Helper()
	if stdout == "" || !strings.HasSuffix(stdout, "\n") {
		t.Fatalf("JSON Lines do not end in a line end: %q", tail(stdout))
	}
	var all []rec
	for line := range strings.Lines(stdout) {
		line = strings.TrimSuffix(line, "\n")
		clean(t, "a line of JSON Lines", line, "")
		var r rec
		if err := json.Unmarshal([]byte(line), &r); err != nil {
			t.Fatalf("a line of JSON Lines is no object: %v in %q", err, line)
		}
		if r.V != 1 {
			t.Errorf("a record has v %d: %q", r.V, line)
		}
		r.line = line
		all = append(all, r)
	}
	if all[0].Type != "identity" {
		t.Errorf("the first record is %s, want identity", all[0].Type)
	}
	last := all[len(all)-1]
	if n := len(ofType(all, "outcome")); n != 1 || last.Type != "outcome" {
		t.Fatalf("%d outcome records, the last record is %s; want one, and last", n, last.Type)
	}
	return all, readOutcome(t, last.line)
}

func readOutcome(t testing.TB, line string) outcome {
	t.Helper()
	var o outcome
	if err := json.Unmarshal([]byte(line), &o); err != nil {
		t.Fatalf("the outcome cannot be read: %v in %q", err, line)
	}
	if o.V != 1 || o.Type != "outcome" {
		t.Errorf("the outcome has v %d and type %q", o.V, o.Type)
	}
	return o
}

func ofType(all []rec, typ string) []rec {
	return slices.DeleteFunc(slices.Clone(all), func(r rec) bool { return r.Type != typ })
}

// joined is the answer that the text records of choice 0 spell.
func joined(all []rec) string {
	var b strings.Builder
	for _, r := range ofType(all, "text") {
		if r.Choice == 0 {
			b.WriteString(r.Text)
		}
	}
	return b.String()
}

// asText is what the text records look like as text: choice 0, with a line end
// before a delta of another item.
func asText(all []rec) string {
	var b strings.Builder
	var last rec
	for _, r := range ofType(all, "text") {
		if r.Choice != 0 {
			continue
		}
		if b.Len() > 0 && (r.ItemID != last.ItemID || r.Index != last.Index) {
			b.WriteByte('\n')
		}
		b.WriteString(r.Text)
		last = r
	}
	return b.String()
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

// tail keeps a message readable where a test compares a megabyte.
func tail(s string) string {
	if len(s) > 2000 {
		return "… " + s[len(s)-2000:]
	}
	return s
}
