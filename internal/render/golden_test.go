package render

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
)

const (
	toolFrames = "cases/17-tool-progress-frames/chunks.jsonl"
	escapes    = "cases/33-terminal-escapes/chunks.jsonl"
)

// TestGoldens compares whole runs with files that show the rules at work.
func TestGoldens(t *testing.T) {
	goldens := map[string]struct {
		options Options
		run     func(g *rig)
	}{
		"text-tools":        {Options{}, runTools},
		"text-tools-labels": {Options{ShowLabels: true}, runTools},
		"text-tools-quiet":  {Options{Quiet: true}, runTools},
		"jsonl-tools":       {Options{Format: JSONL}, runTools},
		"json-tools":        {Options{Format: JSON}, runTools},
		"text-escapes":      {Options{ShowLabels: true, Verbose: true}, runEscapes},
		"text-items":        {Options{}, runItems},
		"jsonl-items":       {Options{Format: JSONL}, runItems},
		"text-trouble":      {Options{}, runTrouble},
		"text-trouble-verbose": {
			Options{Verbose: true, ShowProviderErrors: true}, runTrouble},
		"text-trouble-quiet": {Options{Quiet: true}, runTrouble},
		"text-errors":        {Options{}, runErrors},
		"jsonl-errors":       {Options{Format: JSONL}, runErrors},
		"text-status":        {Options{Verbose: true}, runStatus},
		"json-status":        {Options{Format: JSON}, runStatus},
		"text-cancel":        {Options{}, runCancel},
		"jsonl-cancel":       {Options{Format: JSONL}, runCancel},
	}
	for name, tt := range goldens {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, tt.options)
			tt.run(g)
			g.golden(name)
		})
	}
	files, err := filepath.Glob(filepath.Join("testdata", "*.txt"))
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if name := strings.TrimSuffix(filepath.Base(f), ".txt"); goldens[name].run == nil {
			t.Errorf("no run shows %s", name)
		}
	}
}

// runTools is a run with tools that do and do not end.
func runTools(g *rig) {
	g.identity()
	g.state(record.StateFollowing)
	g.state(record.StateFollowing)
	g.play(toolFrames)
	g.state(record.StateSettling)
	g.outcome(func(o *verdict.Outcome) {
		o.Text = "Checking: level 3.2 m."
		o.Tools = []verdict.Tool{
			{Name: "read_file", CallID: "call_qa_1", Status: transcript.ToolCompleted},
			{Name: "terminal", CallID: "call_qa_2", Status: transcript.ToolRunning},
			{Name: "web", Status: transcript.ToolRunning},
		}
		o.ToolEffects = "unconfirmed"
		o.Warnings = []verdict.Warning{{Code: "tools.unfinished", Message: "2 tools did not report completion"}}
	})
}

// runEscapes is a run in which everything that a provider writes is hostile.
func runEscapes(g *rig) {
	g.identity()
	g.play(escapes)
	g.outcome(func(o *verdict.Outcome) {
		o.Verdict, o.ExitCode = "failed", 5
		o.FinishReason = "stop\x1b[0m"
		o.ErrorCode = "connector.\x1b]0;x\a"
	})
}

// runItems is a Responses run: two messages around a function call, halves of
// a character in two deltas, and line ends at the end.
func runItems(g *rig) {
	first := transcript.ItemRef{ItemID: "msg_1"}
	second := transcript.ItemRef{ItemID: "msg_2", OutputIndex: 3}
	call := jsontext.Value(`{"type":"function_call","id":"fc_1","call_id":"call_1","name":"search","arguments":"{\"n\": 1.50}"}`)

	g.identity()
	g.deliver(0, transcript.Response{Event: "response.created", ID: "resp_1", Status: "in_progress"})
	g.deliver(1, transcript.Item{ItemID: "msg_1", Kind: "message", Status: "in_progress", Open: true})
	g.deliver(2, transcript.Text{Item: first, Text: "Looking \xed\xa0\xbd"})
	g.deliver(3, transcript.Text{Item: first, Text: "\xed\xb4\x8e up"})
	g.deliver(4, transcript.TextDone{Item: first, Text: "Looking \U0001f50e up"},
		transcript.Item{ItemID: "msg_1", Kind: "message", Status: "completed"})
	g.deliver(5, transcript.Item{ItemID: "fc_1", OutputIndex: 1, Kind: "function_call", CallID: "call_1", Name: "search", Status: "in_progress", Open: true, Payload: call},
		transcript.Tool{CallID: "call_1", Name: "search", Status: transcript.ToolRunning})
	g.wait(1250 * time.Millisecond)
	g.deliver(6, transcript.Item{ItemID: "fo_1", OutputIndex: 2, Kind: "function_call_output", CallID: "call_1", Status: "completed"},
		transcript.Tool{CallID: "call_1", Status: transcript.ToolCompleted})
	g.deliver(7, transcript.Item{ItemID: "fc_2", OutputIndex: 4, Kind: "function_call", CallID: "call_2", Name: "notify", Status: "completed"})
	g.deliver(8, transcript.Text{Item: second, Text: "Found it.\n\n\n"})
	g.deliver(9, transcript.Text{Item: transcript.ItemRef{Choice: 1}, Text: "another choice"})
	g.deliver(10, transcript.FinalText{Item: second, Text: "Found it."})
	g.outcome(func(o *verdict.Outcome) {
		o.FinishReason, o.ProviderStatus = "", "completed"
		o.Usage = jsontext.Value(`{"input_tokens":12345678901234567890,"output_tokens":9}`)
		o.ResponseID = "resp_1"
	})
}

// runTrouble is a run that goes wrong in every way that is shown.
func runTrouble(g *rig) {
	g.identity()
	g.state(record.StateFollowing)
	g.ok(g.r.Event(record.Event{ID: "evt_1", Kind: "aip.action.accepted", OccurredAt: "2030-01-15T12:00:00Z", Data: jsontext.Value(`{"secret":"x"}`)}))
	g.ok(g.r.Event(record.Event{ID: "evt_2", Kind: "aip.stream.chunk", OccurredAt: "2030-01-15T12:00:01Z"}))
	g.deliver(0, transcript.Thought{Text: "first I "}, transcript.Thought{Text: "look\nthen I act"})
	g.deliver(1, transcript.Text{Text: "Half an ans"})
	g.wait(3 * time.Second)
	g.ok(g.r.State(record.State{State: record.StateReconnecting, Attempt: 2, Reason: "connection reset", WaitMS: 1500}))
	g.ok(g.r.Gap(record.Gap{From: 3, To: 5}))
	g.ok(g.r.Gap(record.Gap{From: 7, To: 7}))
	g.ok(g.r.Warning(record.Warning{Code: "cursor.refused", Message: "the saved position was not taken; reading from the start"}))
	g.deliver(8, transcript.Approval{Choices: []string{"once", "deny"}})
	bad := transcript.ProviderError{Type: "agent_error", Code: "output_truncated", Message: "the key sk-123 was refused\nsecond line"}
	g.deliver(9, bad, bad)
	g.deliver(10, transcript.Closed{Reason: hermesClosed})
	g.outcome(func(o *verdict.Outcome) {
		o.Verdict, o.ExitCode = "unknown", 9
		o.Reason = "the reply was lost and the daemon has no result"
		o.ErrorCode = "sla.timeout_exceeded"
		o.FinishReason = ""
		o.Usage = nil
		o.Reconnects = 2
		o.Warnings = []verdict.Warning{{Code: "cursor.refused"}}
		o.Next = [][]string{{"aipctl", "action", "reconcile", "act_1"}, {"aipctl", "action", "status", "--token-file", "/my tokens/it's"}}
	})
}

const hermesClosed = "upstream_stream_closed_without_terminal_event"

func runErrors(g *rig) {
	g.r.Error(nil)
	g.r.Error(fault.New(fault.Usage, "usage.flag", "unknown flag --inptu").WithHint("did you mean --input?"))
	g.r.Error(fault.New(fault.Unknown, "submit.uncertain", "the reply to the submit was lost").
		WithAction("act_1").WithHint("look before anything else").WithNext("aipctl", "action", "reconcile", "act 1"))
	g.r.Error(fault.New(fault.Auth, "auth.\x1b[2J", "a \x1b]52;c;x\a\u009b31m\nforged").WithAction("act_\x7f").WithNext("aipctl", "--url", "http://h/\x1b'\\"))
	g.r.Error(fault.New(fault.NotFound, "action.not_found", "action act_1 is not known here").WithAction("act_1"))
	g.r.Error(errors.New("plain trouble"))
	g.r.Error(fault.New(fault.BrokenPipe, "output.broken_pipe", "nobody is there to read this"))
}

func runStatus(g *rig) {
	g.ok(g.r.Status(&aip.ActionStatus{
		ActionID:     "act_1",
		CapabilityID: "cap:hermes_agent:qa:chat_stream",
		State:        aip.StateFailed,
		ResultStatus: "failed",
		UpdatedAt:    "2030-01-15T12:00:00Z",
		Retry:        jsontext.Value(`{"attempt": 1.0, "note":"a\u001b"}`),
		Error:        &aip.ProtocolError{Code: "sla.timeout_exceeded", Message: "never shown"},
	}))
	g.ok(g.r.Line(sanitize.Static("one\ntwo")))
	g.ok(g.r.Record(map[string]int{"b": 2, "a": 1}))
	g.ok(g.r.Fields(
		Field{sanitize.Static("name"), sanitize.Static("x")},
		Field{sanitize.Static("\u6f22\u5b57\u6f22\u5b57"), sanitize.Static("wide\nname")},
		Field{sanitize.Static("a very long name without a value"), sanitize.Text{}},
	))
	g.r.Note(sanitize.Static("a note"))
}

func runCancel(g *rig) {
	g.ok(g.r.CancelOutcome(outcome(func(o *verdict.Outcome) {
		o.Verdict, o.ExitCode, o.State = "cancelled", 0, "cancelled"
		o.Reason = "cancelled before it completed"
		o.ResponseID = "resp_1"
		o.Next = [][]string{{"aipctl", "response", "get", "resp_1"}}
		o.Text = "is not shown in lines"
	})))
	g.ok(g.r.CancelOutcome(outcome(nil)))
	g.ok(g.r.Close())
}

func TestSummarySaysWhatIsNotKnown(t *testing.T) {
	for want, edit := range map[string]func(*verdict.Outcome){
		"verdict: accepted; finish stop; tokens 31 in, ? out; total 6.2s; reconnects 0; warnings 0": func(o *verdict.Outcome) {
			o.Usage, o.FirstTextMS = jsontext.Value(`{"prompt_tokens":31,"completion_tokens":"9"}`), nil
		},
		"verdict: accepted; finish stop; tokens ? in, 9 out; no text; total 6.2s; reconnects 0; warnings 0": func(o *verdict.Outcome) {
			o.Usage, o.FirstTextMS, o.TextBytes = jsontext.Value(`{"output_tokens":9}`), nil, 0
		},
		"verdict: failed, as recorded (exit 5); finish stop; tokens not reported; first text 1.0s; total 6.2s; reconnects 0; warnings 0": func(o *verdict.Outcome) {
			o.Verdict, o.ExitCode, o.Recorded, o.Usage = "failed", 5, true, jsontext.Value(`"many"`)
		},
		"verdict: pending (exit 8); it waits for a human; code policy.x; approval appr_1; no text; total 6.2s; reconnects 0; warnings 0": func(o *verdict.Outcome) {
			o.Verdict, o.ExitCode, o.Reason, o.ErrorCode, o.ApprovalID = "pending", 8, "it waits for a human", "policy.x", "appr_1"
			o.FinishReason, o.Usage, o.FirstTextMS, o.TextBytes = "", nil, nil, 0
		},
		"verdict: rejected (exit 12); refused with schema.x; no text; total 6.2s; reconnects 0; warnings 0": func(o *verdict.Outcome) {
			o.Verdict, o.ExitCode, o.Reason, o.ErrorCode = "rejected", 12, "refused with schema.x", "schema.x"
			o.FinishReason, o.Usage, o.FirstTextMS, o.TextBytes = "", nil, nil, 0
		},
		"verdict: cancelled (exit 6); finish stop; tokens 31 in, 9 out; first text 1.0s; total 6.2s; reconnects 0; warnings 0": func(o *verdict.Outcome) {
			o.Verdict, o.ExitCode = "cancelled", 6
		},
	} {
		if got := summary(outcome(edit)).String(); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestErrorOfAProviderWithoutATypeIsShown(t *testing.T) {
	g := newRig(t, Options{})
	g.deliver(0, transcript.ProviderError{Message: "only words"})
	if got := g.err.String(); got != "2030-01-15T12:00:00Z provider error: without a type\n" {
		t.Errorf("stderr %q", got)
	}
}

func TestLogGoesToStderrInEveryFormat(t *testing.T) {
	for _, f := range []Format{Text, JSON, JSONL} {
		g := newRig(t, Options{Format: f, Quiet: true})
		g.r.Log(plainText("GET /x"))
		if g.err.String() != "GET /x\n" || g.out.Len() > 0 {
			t.Errorf("%v: stderr %q, stdout %q", f, g.err.String(), g.out.String())
		}
	}
}
