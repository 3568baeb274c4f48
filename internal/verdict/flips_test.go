package verdict

import (
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
)

// flip is one change to an accepted chat stream: to its frames, or to what
// the rooms that order and compare hand to the judge. For the flips about
// delivery the second says what those rooms report of it.
type flip struct {
	frames   func([]string) []string
	evidence func(*Evidence)
}

// at replaces the frame at a position.
func at(i int, frame string) func([]string) []string {
	return func(f []string) []string { f[i] = frame; return f }
}

// insert puts a frame before the one at a position.
func insert(i int, frame string) func([]string) []string {
	return func(f []string) []string { return slices.Insert(f, i, frame) }
}

// content is a content frame with more members at the top of its data.
func content(more string) string {
	return `{"choices":[{"index":0,"delta":{"content":" are full."},"finish_reason":null}]` + more + `}`
}

// both applies two changes of frames.
func both(a, b func([]string) []string) func([]string) []string {
	return func(f []string) []string { return b(a(f)) }
}

func finishing(reason, more string) flip {
	return flip{frames: at(finishAt, finishFrame(reason, more))}
}

func status(s, code, details string) flip {
	return flip{evidence: func(ev *Evidence) {
		var e *aip.ProtocolError
		if code != "" {
			e = &aip.ProtocolError{Code: code, Category: "connector", Details: []byte(details)}
		}
		*ev = failed(*ev, e)
		ev.Result.Status = s
	}}
}

func integrity(change func(*Integrity)) flip {
	return flip{evidence: func(ev *Evidence) { change(&ev.Integrity) }}
}

func output(change func(*aip.Output)) flip {
	return flip{evidence: func(ev *Evidence) { change(ev.Result.Output) }}
}

// unchanged are flips that only what compares must see through: the judge is
// told of nothing.
var unchanged = flip{}

const connector = "connector.hermes_agent."

var flips = map[string]flip{
	"unchanged":                         unchanged,
	"status-failed-stream-truncated":    status("failed", connector+"stream_truncated", ""),
	"status-failed-stream-incomplete":   status("failed", connector+"stream_incomplete", ""),
	"status-failed-stream-failed":       status("failed", connector+"stream_failed", ""),
	"status-failed-authentication":      status("failed", connector+"authentication", ""),
	"status-failed-resource-not-found":  status("failed", "resource.not_found", ""),
	"status-failed-input-schema":        status("failed", "action.input_schema_invalid", ""),
	"status-failed-in-progress":         status("failed", "idempotency.in_progress", ""),
	"status-failed-transport-uncertain": status("failed", connector+"transport", `{"uncertain_outcome":true}`),
	"status-failed-transport-certain":   status("failed", connector+"transport", `{"uncertain_outcome":false}`),
	"status-failed-timeout":             status("failed", "sla.timeout_exceeded", ""),
	"status-failed-output-schema":       status("failed", "action.output_schema_invalid", ""),
	"status-failed-invented-code":       status("failed", "example.never_seen", ""),
	"status-failed-no-error":            status("failed", "", ""),
	"status-cancelled":                  status("cancelled", "", ""),
	"status-pending-approval":           status("pending_approval", "", ""),
	"status-requires-human":             status("requires_human", "", ""),
	"aggregate-terminal-false":          output(func(o *aip.Output) { *o.Terminal = false }),
	"aggregate-terminal-absent":         output(func(o *aip.Output) { o.Terminal = nil }),
	"aggregate-truncated-true":          output(func(o *aip.Output) { *o.Truncated = true }),
	"aggregate-truncated-absent":        output(func(o *aip.Output) { o.Truncated = nil }),
	"aggregate-absent":                  {evidence: func(ev *Evidence) { ev.Result.Output = nil }},
	"finish-length":                     finishing(`"length"`, ""),
	"finish-content-filter":             finishing(`"content_filter"`, ""),
	"finish-error":                      finishing(`"error"`, ""),
	"finish-tool-calls":                 finishing(`"tool_calls"`, ""),
	"finish-upper-case":                 finishing(`"STOP"`, ""),
	"finish-with-escape":                finishing(`"stop\u001b"`, ""),
	"finish-null":                       finishing(`null`, ""),
	"finish-empty-string":               finishing(`""`, ""),
	"finish-frame-lost":                 {frames: func(f []string) []string { return slices.Delete(f, finishAt, finishAt+1) }},
	"finish-then-null":                  {frames: insert(finishAt+1, finishFrame(`null`, ""))},
	"second-choice-open":                {frames: insert(contentAt, `{"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":null}]}`)},
	"second-choice-length":              {frames: insert(contentAt, `{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`)},
	"error-object-on-content-frame":     {frames: at(contentAt, content(`,"error":{"message":"canary","type":"agent_error"}`))},
	"error-string-on-content-frame":     {frames: at(contentAt, content(`,"error":"canary"`))},
	"error-empty-string":                {frames: at(contentAt, content(`,"error":""`))},
	"error-null":                        {frames: at(contentAt, content(`,"error":null`))},
	"error-deep-inside":                 {frames: at(contentAt, `{"choices":[{"index":0,"delta":{"content":" are full.","error":{"message":"canary"}},"finish_reason":null}]}`)},
	"error-only-in-aggregate":           {frames: insert(contentAt, content(`,"error":{"message":"canary"}`)), evidence: func(ev *Evidence) { ev.Integrity.Seen-- }},
	"length-explained":                  finishing(`"length"`, `,"error":{"message":"canary","type":"agent_error"}`),
	"length-with-failed-true":           finishing(`"length"`, `,"error":{"message":"canary"},"hermes":{"failed":true}`),
	"length-error-elsewhere":            {frames: both(at(finishAt, finishFrame(`"length"`, "")), at(contentAt, content(`,"error":{"message":"canary"}`)))},
	"hermes-failed-true":                finishing(`"stop"`, `,"hermes":{"failed":true}`),
	"hermes-failed-false":               finishing(`"stop"`, `,"hermes":{"failed":false}`),
	"hermes-completed-true":             finishing(`"length"`, `,"hermes":{"completed":true}`),
	"chunk-lost-stream":                 integrity(func(in *Integrity) { in.Seen-- }),
	"chunk-lost-aggregate":              integrity(func(in *Integrity) { in.CountsDiffer = true }),
	"chunk-lost-both-no-events": {
		frames: func(f []string) []string { return slices.Delete(f, contentAt, contentAt+1) },
		evidence: func(ev *Evidence) {
			ev.Result.Output.HasEvents, ev.Result.Output.Events = false, 0
			ev.Integrity.Holes = 1
		},
	},
	"chunk-lost-both-shortened": {frames: func(f []string) []string { return slices.Delete(f, contentAt, contentAt+1) }},
	"chunk-lost-both-and-one":   integrity(func(in *Integrity) { in.CountsDiffer = true }),
	"stream-cut-early":          integrity(func(in *Integrity) { in.Seen = 1 }),
	"stream-none":               integrity(func(in *Integrity) { in.Seen = 0 }),
	"chunk-changed-in-stream":   integrity(func(in *Integrity) { in.FrameDiffers = 1 }),
	"chunk-key-order":           unchanged,
	"chunk-number-spelling":     unchanged,
	"chunk-null-and-absent":     unchanged,
	"chunk-raw-data-differs":    unchanged,
	"chunk-twice-equal":         unchanged,
	"chunk-twice-different":     integrity(func(in *Integrity) { in.Conflicts = 1 }),
	"chunk-foreign":             integrity(func(in *Integrity) { in.Strays = 1 }),
	"chunk-above-terminal":      integrity(func(in *Integrity) { in.AboveTerminal = 1 }),
	"aggregate-text-differs":    output(func(o *aip.Output) { o.Text = "something else" }),
	"required-tool-absent":      {evidence: func(ev *Evidence) { ev.RequiredTools = []string{"read_file"} }},
	"effect-check-nonzero":      {evidence: func(ev *Evidence) { ev.EffectChecks = []EffectCheck{{Ran: true, ExitCode: 1}} }},
}

// TestFlips changes exactly one thing of an accepted stream at a time.
func TestFlips(t *testing.T) {
	played := map[string]bool{}
	for _, row := range aiptest.Table(t, "flips.tsv") {
		name := row.Get("flip")
		t.Run(name, func(t *testing.T) {
			f, ok := flips[name]
			if !ok {
				t.Fatalf("the test does not know how to change: %s", row.Get("change"))
			}
			played[name] = true
			frames := slices.Clone(goodChat)
			if f.frames != nil {
				frames = f.frames(frames)
				if slices.Equal(frames, goodChat) {
					t.Fatal("the change changes nothing")
				}
			}
			ev := chat(frames...)
			if f.evidence != nil {
				f.evidence(&ev)
			}
			j := Judge(ev)
			want(t, j.Verdict, row.Get("verdict"), row.Get("exit_code"))
			// The rule names the check that decided. A provider error never makes a
			// result partial: there its rule says why the check passed.
			check, _, _ := strings.Cut(row.Get("rule"), ":")
			if s, ok := j.Checks.Map()[check]; ok {
				passes := row.Get("verdict") == "accepted" || check == "provider_error" && row.Get("verdict") == "partial"
				if passes != (s == string(Pass) || s == string(NotApplicable)) {
					t.Errorf("the check %s came to %s", check, s)
				}
			}
			for _, c := range j.Checks.List() {
				if row.Get("verdict") == "accepted" && c.Status != Pass && c.Status != NotApplicable {
					t.Errorf("accepted although %s is %s", c.Name, c.Status)
				}
			}
		})
	}
	for name := range flips {
		if !played[name] {
			t.Errorf("the table has no row for %s", name)
		}
	}
}
