package render

import (
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

func TestToolsArePairedLikeInTheTranscript(t *testing.T) {
	update := func(id, name, status string) transcript.Tool {
		return transcript.Tool{CallID: id, Name: name, Status: status}
	}
	const run, done, failed = transcript.ToolRunning, transcript.ToolCompleted, transcript.ToolFailed
	for name, tt := range map[string]struct {
		ops  []transcript.Tool // a second apart
		want string
	}{
		"a call starts and ends":                {[]transcript.Tool{update("1", "a", run), update("1", "a", done)}, "tool a running|tool a completed 1.0s"},
		"a repeated start is none":              {[]transcript.Tool{update("1", "a", run), update("1", "a", run), update("1", "a", done)}, "tool a running|tool a completed 2.0s"},
		"a repeated end is none":                {[]transcript.Tool{update("1", "a", run), update("1", "a", done), update("1", "a", done)}, "tool a running|tool a completed 1.0s"},
		"an end is not undone":                  {[]transcript.Tool{update("1", "a", done), update("1", "a", run), update("1", "a", failed)}, "tool a completed"},
		"a failure is an end":                   {[]transcript.Tool{update("1", "a", run), update("1", "a", failed)}, "tool a running|tool a failed 1.0s"},
		"calls go by id and not by name":        {[]transcript.Tool{update("1", "a", run), update("2", "a", run), update("2", "a", done)}, "tool a running|tool a running|tool a completed 1.0s"},
		"an end without a name has the start's": {[]transcript.Tool{update("1", "a", run), update("1", "", done)}, "tool a running|tool a completed 1.0s"},
		"an end without a start has no time":    {[]transcript.Tool{update("1", "", done)}, "tool without a name completed"},
		"without ids each start is a call":      {[]transcript.Tool{update("", "a", run), update("", "a", run)}, "tool a running|tool a running"},
		"without ids the oldest ends first":     {[]transcript.Tool{update("", "a", run), update("", "a", run), update("", "a", done), update("", "a", done)}, "tool a running|tool a running|tool a completed 2.0s|tool a completed 2.0s"},
		"without ids an end goes by name":       {[]transcript.Tool{update("", "a", run), update("", "b", run), update("", "b", done)}, "tool a running|tool b running|tool b completed 1.0s"},
		"a start never ends a call without id":  {[]transcript.Tool{update("", "a", done), update("", "a", done)}, "tool a completed|tool a completed"},
		"a state of its own is shown":           {[]transcript.Tool{update("1", "a", run), update("1", "a", "blocked"), update("1", "a", "blocked"), update("1", "a", run), update("1", "a", done)}, "tool a running|tool a blocked 1.0s|tool a completed 4.0s"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, terminal())
			script := transcript.New()
			for i, op := range tt.ops {
				g.deliver(uint64(i), op)
				script.Apply(uint64(i), []transcript.Op{op})
				g.wait(time.Second)
			}
			got := strings.ReplaceAll(strings.TrimSuffix(g.err.String(), "\n"), "\n", "|")
			if got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
			// As many calls are shown to start as the transcript counts.
			firsts := 0
			for line := range strings.SplitSeq(got, "|") {
				if !strings.HasSuffix(line, "s") {
					firsts++
				}
			}
			if facts := script.Facts(); firsts != len(facts.Tools) {
				t.Errorf("%d calls shown, %d in the transcript", firsts, len(facts.Tools))
			}
		})
	}
}

func TestFunctionCallsGoByNameAndID(t *testing.T) {
	item := func(open bool) transcript.Op {
		return transcript.Item{Kind: "function_call", CallID: "call_1", Name: "search", Open: open}
	}
	tool := func(status string) transcript.Op {
		return transcript.Tool{CallID: "call_1", Name: "search", Status: status}
	}
	for name, tt := range map[string]struct {
		ops  [][]transcript.Op
		want string
	}{
		"one that runs is a tool":         {[][]transcript.Op{{item(true), tool("running")}, {item(false)}, {tool("completed")}}, "tool search running (call_1)|tool search completed 0s (call_1)"},
		"one that is only told of is not": {[][]transcript.Op{{item(false)}}, "function call search (call_1)"},
		"it is told of once":              {[][]transcript.Op{{item(false)}, {item(true)}, {item(false)}}, "function call search (call_1)"},
		"other items are not calls":       {[][]transcript.Op{{transcript.Item{Kind: "reasoning", CallID: "x"}}}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, terminal())
			for i, ops := range tt.ops {
				g.deliver(uint64(i), ops...)
			}
			if got := strings.ReplaceAll(strings.TrimSuffix(g.err.String(), "\n"), "\n", "|"); got != tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
	g := newRig(t, terminal())
	g.deliver(0, item(true), tool("running"))
	g.err.Reset()
	g.outcome(func(o *verdict.Outcome) {
		o.Tools = []verdict.Tool{{Name: "search", CallID: "call_1", Status: "running"}}
	})
	if first, _, _ := strings.Cut(g.err.String(), "\n"); first != "tool search: no completion reported (call_1)" {
		t.Errorf("at the end: %q", first)
	}
}
