package e2e_test

import (
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/google/go-cmp/cmp"
)

// streamRow is a row of the table of streams.
type streamRow struct {
	name, verdict, finish, text string
	code                        int
	tools                       []string
}

func streamRows(t *testing.T) []streamRow {
	t.Helper()
	var rows []streamRow
	for _, r := range aiptest.Table(t, "../internal/e2e/testdata/streams.tsv") {
		code, err := strconv.Atoi(r.Get("exit_code"))
		if err != nil {
			t.Fatalf("%s: %v", r.Get("stream"), err)
		}
		row := streamRow{name: r.Get("stream"), verdict: r.Get("verdict"), finish: r.Get("finish"), text: r.Get("text"), code: code}
		if tools := r.Get("tools"); tools != "" {
			row.tools = strings.Split(tools, " ")
		}
		rows = append(rows, row)
	}
	return rows
}

func TestEveryStreamHasARowAndEveryRowAStream(t *testing.T) {
	files, err := filepath.Glob(aiptest.Testdata(t, "streams") + "/*.jsonl")
	if err != nil || len(files) == 0 {
		t.Fatalf("no streams: %v", err)
	}
	var streams, rows []string
	for _, f := range files {
		streams = append(streams, strings.TrimSuffix(filepath.Base(f), ".jsonl"))
	}
	for _, r := range streamRows(t) {
		rows = append(rows, r.name)
	}
	slices.Sort(rows)
	if diff := cmp.Diff(streams, rows); diff != "" {
		t.Errorf("streams and rows differ (-streams +rows):\n%s", diff)
	}
}

// TestStreams shows that the verdict is the same by whatever way the action
// is come to, and in whatever form it is shown.
func TestStreams(t *testing.T) {
	for _, row := range streamRows(t) {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			rec := loadRecording(t, row.name)
			stdout := row.text
			if stdout != "" {
				stdout += "\n"
			}
			t.Run("events in text", func(t *testing.T) {
				d := serve(t, rec)
				s := newWorld(t).run("action", "events", d.URL, d.action, "--follow", "--include-chunks")
				row.compareText(t, s, stdout)
				d.onlyReads(t)
			})
			t.Run("events in JSON Lines", func(t *testing.T) {
				d := serve(t, rec)
				s := newWorld(t).run("action", "events", d.URL, d.action, "--follow", "--include-chunks", "-o", "jsonl")
				all, o := records(t, s.stdout)
				row.compareOutcome(t, s, o)
				if got := joined(all); got != row.text {
					t.Errorf("the text records spell %q, want %q", got, row.text)
				}
				d.onlyReads(t)
			})
			t.Run("events in JSON", func(t *testing.T) {
				d := serve(t, rec)
				s := newWorld(t).run("action", "events", d.URL, d.action, "--follow", "--include-chunks", "-o", "json")
				row.compareDocument(t, s)
				d.onlyReads(t)
			})
			t.Run("result in JSON", func(t *testing.T) {
				d := serve(t, rec)
				s := newWorld(t).run("action", "result", d.URL, d.action, "-o", "json")
				row.compareDocument(t, s)
				d.onlyReads(t)
			})
			t.Run("result in text", func(t *testing.T) {
				d := serve(t, rec)
				row.compareText(t, newWorld(t).run("action", "result", d.URL, d.action), stdout)
			})
			t.Run("call in text", func(t *testing.T) {
				d := serveUnsubmitted(t, rec)
				s := newWorld(t).run(callOf(d)...)
				row.compareText(t, s, stdout)
				d.onePost(t)
			})
			t.Run("call in JSON Lines", func(t *testing.T) {
				d := serveUnsubmitted(t, rec)
				s := newWorld(t).run(append(callOf(d), "-o", "jsonl")...)
				all, o := records(t, s.stdout)
				row.compareOutcome(t, s, o)
				if got := joined(all); got != row.text {
					t.Errorf("the text records spell %q, want %q", got, row.text)
				}
				d.onePost(t)
			})
		})
	}
}

// callOf is the command that submits the action of the daemon.
func callOf(d *daemon) []string {
	input := `{"prompt":"hello","session_id":"s"}`
	switch {
	case strings.HasSuffix(d.capability, ":responses_stream"):
		input = `{"body":{"input":"hello","store":true}}`
	case strings.HasSuffix(d.capability, ":response_get"):
		input = `{"response_id":"resp_5f0c9a7be13d4e62a1b80c47d92e"}`
	case strings.HasSuffix(d.capability, ":run_events"):
		input = `{"run_id":"run_0b7ce2f4d19a4c35a6e8f1027bd94c53"}`
	}
	return []string{"action", "call", d.URL, d.capability, "--action-id", d.action, "--input", input}
}

func (d *daemon) onePost(t *testing.T) {
	t.Helper()
	if n := d.count("post"); n != 1 {
		t.Errorf("%d submits, want 1", n)
	}
}

func (d *daemon) onlyReads(t *testing.T) {
	t.Helper()
	if n := d.count("post") + d.count("cancel"); n != 0 {
		t.Errorf("%d submits and cancels, want none", n)
	}
}

func (row streamRow) compareText(t *testing.T, s shot, stdout string) {
	t.Helper()
	if s.stdout != stdout {
		t.Errorf("stdout is %q, want %q", s.stdout, stdout)
	}
	if s.code != row.code {
		t.Errorf("exit code %d, want %d; stderr:\n%s", s.code, row.code, s.stderr)
	}
	if line := verdictLine(t, s.stderr); !verdictIs(line, row.verdict) {
		t.Errorf("stderr says %q, want the verdict %s", line, row.verdict)
	}
	clean(t, "stderr", s.stderr, "\n")
}

func (row streamRow) compareDocument(t *testing.T, s shot) {
	t.Helper()
	o := readOutcome(t, s.stdout)
	row.compareOutcome(t, s, o)
	if o.Text != row.text {
		t.Errorf("the text of the document is %q, want %q", o.Text, row.text)
	}
}

func (row streamRow) compareOutcome(t *testing.T, s shot, o outcome) {
	t.Helper()
	if s.code != row.code || o.ExitCode != row.code || o.Verdict != row.verdict {
		t.Errorf("exit code %d, in the outcome %d and %s; want %d and %s\nstderr: %s", s.code, o.ExitCode, o.Verdict, row.code, row.verdict, s.stderr)
	}
	if o.FinishReason != row.finish {
		t.Errorf("finish_reason is %q, want %q", o.FinishReason, row.finish)
	}
	if diff := cmp.Diff(row.tools, o.tools()); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
}
