package devserver

import (
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
)

// expectation is what a scenario must come to in the mode it is meant for.
type expectation struct {
	name   string
	http   int
	code   string // of the error, in the result or in the envelope
	status string // of the result; empty when the answer is an error
	state  string // read back afterwards
	chunks int    // stored
	last   string // kind of the last chunk
	text   string // of the aggregate, else of the message; "~" stands for any
}

const (
	hello   = "Hello! How can I help you today?"
	notes   = "I'll look at the notes and the clock.\n\nThe incident started at 09:12 UTC, was rolled back at 09:20 UTC and the error rate recovered by 09:41 UTC."
	halves  = "connector.hermes_agent."
	someway = "Hello! How can I"
	report  = "Section one: background of the outage and its impact on customers in the first hour, followed by a list of contributing causes, each of which needs its own owner and"
	cleared = "I'll look at the build folder first.\n\nThe folder held 1.2 GB and is gone now."
)

var expectations = []expectation{
	{"demo", 200, "", "completed", "completed", 29, "done", notes},
	{"chat-stop", 200, "", "completed", "completed", 10, "done", hello},
	{"chat-tools-sequence", 200, "", "completed", "completed", 30, "done", "~"},
	{"chat-unicode", 200, "", "completed", "completed", 25, "done", "~"},
	{"chat-empty", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-keepalive", 200, "", "completed", "completed", 6, "done", "~"},
	{"chat-slow", 200, "", "completed", "completed", 44, "done", "~"},
	{"chat-length", 200, "", "completed", "completed", 33, "done", "~"},
	{"chat-error", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-error-exception", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-error-bare", 200, "", "completed", "completed", 3, "done", ""},
	{"chat-finish-unknown", 200, "", "completed", "completed", 10, "done", hello},
	{"chat-stop-with-error", 200, "", "completed", "completed", 10, "done", hello},
	{"chat-no-finish", 200, "", "completed", "completed", 9, "done", hello},
	{"chat-tool-unfinished", 200, "", "completed", "completed", 28, "done", notes},
	{"chat-surrogates", 200, "", "completed", "completed", 12, "done", hello},
	{"chat-truncated-on-done", 200, halves + "stream_truncated", "failed", "failed", 10, "done", hello},
	{"chat-truncated-midway", 200, halves + "stream_truncated", "failed", "failed", 5, "data", someway},
	{"chat-upstream-close", 200, halves + "stream_incomplete", "failed", "failed", 6, "error", someway},
	{"chat-transport-break", 503, halves + "transport", "", "unknown", 8, "data", ""},
	{"chat-rate-limited", 503, halves + "remote_temporary", "", "unknown", 0, "", ""},
	{"chat-endpoint-unauthorized", 401, halves + "authentication", "", "unknown", 0, "", ""},
	{"chat-early-rejection", 200, "action.input_schema_invalid", "failed", "unknown", 0, "", ""},
	{"chat-handler-failed", 503, "runtime.handler_failed", "", "unknown", 5, "data", ""},
	{"chat-publication", 502, halves + "stream_publication", "", "unknown", 3, "error", ""},
	{"chat-output-schema", 200, "action.output_schema_invalid", "failed", "failed", 10, "done", ""},
	{"chat-timeout", 200, "sla.timeout_exceeded", "failed", "failed", 5, "data", ""},
	{"chat-cancelled", 200, "", "cancelled", "cancelled", 5, "data", ""},
	{"chat-approval", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"chat-conflict", 200, "", "completed", "completed", 10, "done", hello},
	{"responses-stop", 200, "", "completed", "completed", 9, "done", hello},
	{"responses-tools", 200, "", "completed", "completed", 24, "done", notes},
	{"responses-large", 200, "", "completed", "completed", 10, "done", "~"},
	{"responses-failed", 200, halves + "stream_failed", "failed", "failed", 13, "error", "~"},
	{"responses-upstream-close", 503, halves + "transport", "", "unknown", 49, "data", ""},
	{"responses-tools-sequence", 200, "", "completed", "completed", 31, "done", "\n\nReading the build log now.\n\n\n\nThe log shows a full disk; one file was missing and the last command exited with status 3."},
	{"responses-empty", 200, "", "completed", "completed", 6, "done", "\u26a0\ufe0f No reply: the model returned empty content after retries and any fallback providers. Try `continue`, switch model/provider, or inspect the tool output above."},
	{"responses-length", 200, "", "completed", "completed", 21, "done", report},
	{"responses-single-delta", 200, "", "completed", "completed", 6, "done", "One\nsingle\n\nchunk with trailing spaces   \n"},
	{"responses-keepalive-tool", 200, "", "completed", "completed", 12, "done", "Starting the slow command.\n\nThe command finished."},
	{"responses-large-delta", 200, "", "completed", "completed", 7, "done", "~"},
	{"responses-incomplete", 200, halves + "stream_failed", "failed", "failed", 21, "error", report},
	{"responses-envelope-incomplete", 200, "", "completed", "completed", 21, "done", report},
	{"responses-no-created", 200, "", "completed", "completed", 8, "done", hello},
	// The connector appends every delta as it comes, whatever message it is of.
	{"responses-two-messages", 200, "", "completed", "completed", 20, "done", "The alarm fired at 09:12 UTCNext step: and the rollback watch the finished at 09:20 UTC. error rate."},
	{"responses-parallel-calls", 200, "", "completed", "completed", 24, "done", notes},
	{"responses-done-differs", 200, "", "completed", "completed", 9, "done", hello},
	{"responses-truncated-on-completed", 200, halves + "stream_truncated", "failed", "failed", 9, "done", hello},
	{"chat-sync-ok", 200, "", "completed", "completed", 0, "", "The incident started at 09:12 UTC, was rolled back at 09:20 UTC and the error rate recovered by 09:41 UTC."},
	{"chat-sync-length", 200, "", "completed", "completed", 0, "", report},
	{"chat-sync-error", 200, "", "completed", "completed", 0, "", "HTTP 401: Incorrect API key provided: demo-****-key."},
	{"chat-sync-500", 503, halves + "remote_temporary", "", "unknown", 0, "", ""},
	{"responses-sync-ok", 200, "", "completed", "completed", 0, "", ""},
	{"stored", 200, "", "completed", "completed", 0, "", ""},
	{"stored-missing", 400, halves + "remote_rejected", "", "unknown", 0, "", ""},
	{"stored-unauthorized", 401, halves + "authentication", "", "unknown", 0, "", ""},
	{"stored-busy", 503, halves + "remote_temporary", "", "unknown", 0, "", ""},
	{"stored-key-once", 200, "", "completed", "completed", 0, "", ""},
	{"stored-key-same", 200, "", "completed", "completed", 0, "", ""},
	{"delete", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"delete-wrong-id", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"delete-not-deleted", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"delete-answer-lost", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"delete-hash-changed", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"delete-decision-lost", 200, "policy.human_approval_required", "pending_approval", "pending_approval", 0, "", ""},
	{"run-complete", 200, "", "completed", "completed", 12, "done", cleared},
	{"run-final-only", 200, "", "completed", "completed", 3, "done", "The incident was rolled back at 09:20 UTC."},
	{"run-cancelled", 200, "", "cancelled", "cancelled", 4, "done", "Reading the long log"},
	{"run-failed", 200, halves + "stream_failed", "failed", "failed", 5, "error", "Reading "},
	{"session-complete", 200, "", "completed", "completed", 9, "done", "The notes are short; read all of them.Alarm at 09:12 UTC, rollback “回滚完成” at 09:20."},
	{"session-error", 200, halves + "stream_failed", "failed", "failed", 4, "error", "Alarm at 09:12"},
	{"operator-complete", 200, "", "completed", "completed", 6, "done", `{"case_status": "open"}`},
	{"operator-human", 200, "", "requires_human", "pending_approval", 6, "pending_approval", ""},
	{"operator-failed", 200, halves + "operator_failed", "failed", "failed", 5, "error", ""},
	{"health-ok", 200, "", "completed", "completed", 0, "", ""},
	{"future-stream", 200, "", "completed", "completed", 5, "done", "Words from a provider of a later year."},
}

func TestEveryScenarioComesToItsEnd(t *testing.T) {
	list := Scenarios()
	if len(list) != len(expectations) {
		t.Fatalf("%d scenarios, %d expectations", len(list), len(expectations))
	}
	for i, exp := range expectations {
		t.Run(exp.name, func(t *testing.T) {
			if list[i].Name != exp.name {
				t.Fatalf("scenario %d is %s", i, list[i].Name)
			}
			withDaemon(t, Options{}, func(t *testing.T, d *daemon) { playScenario(t, d, list[i], exp) })
		})
	}
}

func playScenario(t *testing.T, d *daemon, sc Scenario, exp expectation) {
	id := "act_" + exp.name
	frames := d.follow(t.Context(), "/aip/v1/actions/"+id+"/events?follow=true&include_chunks=true&limit=1000")
	r := d.submit(sc.Name, id, fields{"input": json.RawMessage(sc.Demo), "mode": sc.Mode})
	if exp.status == "" {
		r.want(t, exp.http, code, exp.code)
	} else {
		r.want(t, exp.http, "/body/action_result/status", exp.status, "/body/action_result/action_id", id)
		if got, _ := r.at(t, "/body/action_result/error/code").(string); got != exp.code {
			t.Errorf("error code %q, want %q", got, exp.code)
		}
	}
	d.get("/aip/v1/actions/"+id).want(t, 200, "/action_status/state", exp.state)

	chunks := d.chunksOf(id)
	if len(chunks) != exp.chunks {
		t.Fatalf("%d chunks, want %d", len(chunks), exp.chunks)
	}
	for i, c := range chunks {
		if c.Sequence != uint64(i) || c.ActionID != id {
			t.Errorf("chunk %d has sequence %d of %s", i, c.Sequence, c.ActionID)
		}
	}
	if n := len(chunks); n > 0 && chunks[n-1].Kind != exp.last {
		t.Errorf("the last chunk is %s, want %s", chunks[n-1].Kind, exp.last)
	}
	checkStoredResult(t, d, id, exp, r)
	switch sc.contract().form {
	case eventStream:
		checkAggregate(t, exp, r, chunks)
	case operatedRun:
		checkOperated(t, sc, exp, r, chunks)
	case storedResponse:
		if exp.status == "completed" {
			checkMessage(t, r, "")
		}
	default:
		checkBody(t, sc, exp, r)
	}
	checkFollowed(t, frames, exp, chunks)
	if got, want := d.server.Executions(id), boolInt(exp.name != "chat-early-rejection" && exp.status != "pending_approval"); got != want {
		t.Errorf("%d executions, want %d", got, want)
	}
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// stored is the state, except for an action that waits for a human because its
// own handler says so: that one has a result, which is not the end.
func (exp expectation) stored() string {
	if exp.status == "requires_human" {
		return exp.status
	}
	return exp.state
}

// checkStoredResult: what the submitter got is what the result route has, when
// it has anything.
func checkStoredResult(t *testing.T, d *daemon, id string, exp expectation, r reply) {
	stored := d.get("/aip/v1/actions/" + id + "/result")
	switch exp.stored() {
	case "unknown":
		stored.want(t, 400, code, "action.not_found")
	case "pending_approval":
		stored.want(t, 503, code, "action.result_not_ready")
	default:
		stored.want(t, 200)
		if !reflect.DeepEqual(stored.at(t, "/action_result"), r.at(t, "/body/action_result")) {
			t.Errorf("the stored result differs from the answer to the submit")
		}
	}
}

// checkAggregate: the output repeats the chunks, and the message the output.
func checkAggregate(t *testing.T, exp expectation, r reply, chunks []chunk) {
	if exp.status == "" || r.at(t, "/body/action_result/output/events") == nil {
		if exp.text != "" {
			t.Errorf("there is no aggregate")
		}
		return
	}
	events := r.at(t, "/body/action_result/output/events").([]any)
	if got := r.at(t, "/body/action_result/output/text"); exp.text != "~" && got != exp.text {
		t.Errorf("the text is %q, want %q", got, exp.text)
	}
	synthetic := exp.last == "error" && strings.HasSuffix(exp.code, "stream_incomplete")
	if len(events) != len(chunks)-boolInt(synthetic) {
		t.Errorf("%d events for %d chunks", len(events), len(chunks))
	}
	differ := 0
	for i := range events {
		carried := decoded(t, chunks[i].Data).(map[string]any)["hermes_sse"]
		if !reflect.DeepEqual(carried, events[i]) {
			differ++
		}
	}
	if want := boolInt(exp.name == "chat-conflict"); differ != want {
		t.Errorf("%d events differ from their chunks, want %d", differ, want)
	}
	if synthetic {
		last := decoded(t, chunks[len(chunks)-1].Data)
		want := map[string]any{
			"operation": r.at(t, "/body/action_result/output/operation"),
			"reason":    "upstream_stream_closed_without_terminal_event",
		}
		if !reflect.DeepEqual(last, want) {
			t.Errorf("the close chunk is %v", last)
		}
	}
	checkMessage(t, r, r.at(t, "/body/action_result/output/text").(string))
}

// checkMessage: the text when there is one, then the output once more.
func checkMessage(t *testing.T, r reply, text string) {
	t.Helper()
	parts, _ := r.at(t, "/body/action_result/message").([]any)
	want := []any{map[string]any{"type": "json", "data": r.at(t, "/body/action_result/output")}}
	if text != "" {
		want = slices.Insert(want, 0, any(map[string]any{"type": "text", "text": text, "format": "plain"}))
	}
	if !reflect.DeepEqual(parts, want) {
		t.Errorf("the message is %v, want %v", parts, want)
	}
}

// checkBody: the output is the provider's body.
func checkBody(t *testing.T, sc Scenario, exp expectation, r reply) {
	if exp.status == "" {
		return
	}
	if want := decoded(t, sc.play.frames[0].data); !reflect.DeepEqual(r.at(t, "/body/action_result/output"), want) {
		t.Errorf("the output is not the body %v", want)
	}
	checkMessage(t, r, exp.text)
}

// checkOperated: the chunks are the run's events, bare, and the output speaks of
// the last of them.
func checkOperated(t *testing.T, sc Scenario, exp expectation, r reply, chunks []chunk) {
	var last any
	for i, c := range chunks {
		_, data, _ := strings.Cut(string(sc.play.frames[i].data), "data: ")
		last = decoded(t, []byte(data))
		if got := decoded(t, c.Data); !reflect.DeepEqual(got, map[string]any{"hermes_operator": last}) {
			t.Errorf("chunk %d carries %v", i, got)
		}
	}
	out := r.at(t, "/body/action_result/output").(map[string]any)
	if !reflect.DeepEqual(out["provider"], last) {
		t.Errorf("the output's provider is %v, want %v", out["provider"], last)
	}
	checkMessage(t, r, exp.text)
}

// checkFollowed: a follower sees every chunk twice under one name, and the
// terminal mark if and only if the action has a terminal state.
func checkFollowed(t *testing.T, frames <-chan sseEvent, exp expectation, chunks []chunk) {
	var got []sseEvent
	if terminalState(exp.state) {
		got = rest(frames)
	} else {
		time.Sleep(time.Minute)
		got = arrived(frames)
	}
	var records, contents, results, terminal int
	for _, f := range got {
		switch {
		case f.name == "aip.stream.chunk" && strings.HasPrefix(f.data, `{"event":`):
			records++
		case f.name == "aip.stream.chunk":
			if want := string(encode(map[string]any{"chunk": chunks[contents]})); f.data != want {
				t.Errorf("followed chunk %d differs from the paged one", contents)
			}
			contents++
		case f.name == "aip.action.result":
			results++
		case f.name == "aip.stream.terminal":
			terminal++
		case f.name == "malformed":
			t.Errorf("malformed frame %q", f.data)
		}
	}
	ended := boolInt(terminalState(exp.state))
	settled := boolInt(ended == 1 || exp.status == "requires_human")
	if records != len(chunks) || contents != len(chunks) || results != settled || terminal != ended {
		t.Errorf("followed %d records, %d chunks of %d, %d results, %d terminal marks", records, contents, len(chunks), results, terminal)
	}
}
