package cmd

import (
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/state"
)

var stateNow = time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)

// stateRun runs one command line in this process, at stateNow.
func stateRun(ctx context.Context, tty bool, stdin io.Reader, args ...string) (code int, stdout, stderr string) {
	var out, errs bytes.Buffer
	code = App{
		Version: Version{Version: "0.0.0-test"}, Stdin: stdin, Stdout: &out, Stderr: &errs,
		StdinTTY: tty, StderrTTY: tty, Env: func(string) string { return "" },
		Now: func() time.Time { return stateNow }, Executable: "aipctl",
	}.Run(ctx, args)
	return code, out.String(), errs.String()
}

// stateWith writes records to a new file, each at its own time before stateNow.
func stateWith(t *testing.T, recs ...state.Record) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "state.jsonl")
	if err := state.New(path).Append(t.Context(), false, recs...); err != nil {
		t.Fatal(err)
	}
	return path
}

func knownActions(t *testing.T, path string) []string {
	t.Helper()
	view, report, err := state.New(path).Load(t.Context())
	if err != nil || !report.Sound() {
		t.Fatalf("%+v %v", report, err)
	}
	var out []string
	for _, a := range view.Actions() {
		out = append(out, a.ID)
	}
	return out
}

// Of all verdicts only pending and unknown leave something to be learnt. Where
// there is none, only an intent that was not sent is settled.
func TestPruneKeepsWhatIsNotSettled(t *testing.T) {
	const day = 24 * time.Hour
	ago := func(d time.Duration, id string, r state.Record) state.Record {
		r.ActionID, r.At = id, stateNow.Add(-d)
		return r
	}
	intent := state.Record{Type: state.TypeIntent, Intent: &state.Intent{CapabilityID: "cap:hermes_agent:lab:chat_stream"}}
	notSent := state.Record{Type: state.TypeNotSent, NotSent: &state.NotSent{Class: 3}}
	cursor := state.Record{Type: state.TypeCursor, Cursor: &state.Cursor{Cursor: "aev_cursor_1_0"}}
	verdict := func(name string) state.Record {
		return state.Record{Type: state.TypeSettled, Settled: &state.Settled{Verdict: name}}
	}
	type row struct {
		rule string
		recs []state.Record
		kept bool
	}
	rows := []row{
		{"only an intent", []state.Record{ago(9*day, "act_1", intent)}, true},
		{"only followed", []state.Record{ago(9*day, "act_1", cursor)}, true},
		{"not sent", []state.Record{ago(9*day, "act_1", intent), ago(8*day, "act_1", notSent)}, false},
		{"not sent, and then tried again", []state.Record{ago(9*day, "act_1", intent), ago(8*day, "act_1", notSent), ago(7*day, "act_1", intent)}, true},
		{"followed and settled elsewhere", []state.Record{ago(9*day, "act_1", cursor), ago(8*day, "act_1", verdict("failed"))}, false},
		{"pending, and settled since", []state.Record{ago(9*day, "act_1", verdict("pending")), ago(8*day, "act_1", verdict("accepted"))}, false},
		{"settled long ago, read a while ago", []state.Record{ago(9*day, "act_1", verdict("accepted")), ago(2*day, "act_1", cursor)}, false},
		{"settled long ago, read just now", []state.Record{ago(9*day, "act_1", verdict("accepted")), ago(time.Hour, "act_1", cursor)}, true},
		{"settled exactly that long ago", []state.Record{ago(day, "act_1", verdict("accepted"))}, true},
		{"settled a nanosecond longer ago", []state.Record{ago(day+1, "act_1", verdict("accepted"))}, false},
		{"settled by a clock that is ahead", []state.Record{ago(-day, "act_1", verdict("accepted"))}, true},
	}
	seen := map[string]bool{}
	for _, e := range fault.Exits() {
		if !seen[e.Name] {
			seen[e.Name] = true
			rows = append(rows, row{"verdict " + e.Name, []state.Record{ago(9*day, "act_1", intent), ago(8*day, "act_1", verdict(e.Name))}, e.Name == "pending" || e.Name == "unknown"})
		}
	}
	for _, tt := range rows {
		t.Run(tt.rule, func(t *testing.T) {
			path := stateWith(t, append(tt.recs, ago(0, "act_other", intent))...)
			code, _, stderr := stateRun(t.Context(), false, nil, "state", "prune", "--settled", "--older-than", "24h", "--yes", "--state", path)
			if code != 0 || stderr != "" {
				t.Fatalf("exit code %d, stderr %q", code, stderr)
			}
			got := knownActions(t, path)
			if kept := slices.Contains(got, "act_1"); kept != tt.kept || !slices.Contains(got, "act_other") {
				t.Errorf("the file knows %v; act_1 is to be kept: %v", got, tt.kept)
			}
			code, out, _ := stateRun(t.Context(), false, nil, "state", "list", "--unsettled", "--state", path)
			if settled := !strings.Contains(out, "act_1 "); code != 0 || !tt.kept && !settled {
				t.Errorf("what was dropped is listed: %q", out)
			}
		})
	}
}

// typed is a terminal at which somebody does things before he answers.
type typed struct {
	first  func()
	answer string
	done   bool
}

func (r *typed) Read(p []byte) (int, error) {
	if r.done {
		return 0, io.EOF
	}
	r.done = true
	r.first()
	return copy(p, r.answer), nil
}

// What is dropped is decided when the answer is there: the question may have
// stood for long.
func TestPruneLooksAgainAfterTheQuestion(t *testing.T) {
	old := stateNow.Add(-48 * time.Hour)
	settled := func(id string, at time.Time) state.Record {
		return state.Record{Type: state.TypeSettled, ActionID: id, At: at, Settled: &state.Settled{Verdict: "accepted"}}
	}
	path := stateWith(t, settled("act_1", old), settled("act_2", old))
	in := &typed{answer: "y\n", first: func() {
		if err := state.New(path).Append(context.Background(), false, settled("act_2", stateNow)); err != nil {
			t.Error(err)
		}
	}}
	code, out, stderr := stateRun(t.Context(), true, in, "state", "prune", "--settled", "--older-than", "24h", "--state", path)
	if want := "drop 2 settled actions from " + path + "? [y/N] "; code != 0 || stderr != want || out != "1 action dropped, 1 record\n" {
		t.Errorf("exit code %d, stdout %q, stderr %q; want the question %q", code, out, stderr, want)
	}
	if got := knownActions(t, path); !slices.Equal(got, []string{"act_2"}) {
		t.Errorf("the file knows %v", got)
	}
}

// A signal ends a question that nobody answers, with its own code.
func TestSignalEndsTheQuestion(t *testing.T) {
	for _, class := range []fault.Class{fault.Interrupt, fault.Terminate, fault.HangUp} {
		path := stateWith(t, state.Record{Type: state.TypeSettled, ActionID: "act_1", At: stateNow.Add(-48 * time.Hour), Settled: &state.Settled{Verdict: "accepted"}})
		ctx, cancel := context.WithCancelCause(t.Context())
		answer, never := io.Pipe()
		defer never.CloseWithError(errors.New("the test is over"))
		in := &typed{first: func() {
			cancel(fault.New(class, "signal", "a signal"))
			_, _ = answer.Read(make([]byte, 1)) // nobody answers
		}}
		code, out, stderr := stateRun(ctx, true, in, "state", "prune", "--settled", "--older-than", "24h", "--state", path)
		if code != class.Code() || out != "" || !strings.Contains(stderr, "? [y/N] \n") {
			t.Errorf("exit code %d, want %d; stdout %q, stderr %q", code, class.Code(), out, stderr)
		}
		if got := knownActions(t, path); len(got) != 1 {
			t.Errorf("the file knows %v", got)
		}
	}
}
