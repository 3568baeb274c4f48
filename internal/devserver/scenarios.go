package devserver

import (
	"bytes"
	"slices"
	"strings"
	"sync"
)

// Scenario is one thing the daemon can be asked to do. Its name is the endpoint
// part of the capability id.
type Scenario struct {
	// Name is the endpoint id.
	Name string
	// Summary says in one line what happens, for people.
	Summary string
	// Operation is the Hermes operation. One of them, future_stream, does not
	// exist: it stands for what a client cannot know yet.
	Operation string
	// Demo is an input that fits the operation, as JSON.
	Demo string
	// MaxEvents is the event limit that the scenario imposes whatever the input
	// says; 0 leaves it to the input.
	MaxEvents int
	// Mode is the action mode the scenario is meant for. Others work where the
	// operation supports them.
	Mode string

	play script
}

// CapabilityID is the capability to submit: cap:hermes_agent:NAME:OPERATION.
func (sc Scenario) CapabilityID() string {
	return capabilityPrefix + sc.Name + ":" + sc.Operation
}

const capabilityPrefix = "cap:hermes_agent:"

// ending is how a provider stream, or the run around it, ends.
type ending int

const (
	endClose    ending = iota // the body ends cleanly
	endCut                    // the body breaks off
	endCrash                  // the handler fails without a result
	endDeadline               // the runtime's deadline passes
	endCancel                 // the runtime cancels the run
)

// script is what the provider and the runtime do in a scenario.
type script struct {
	frames         recording
	end            ending
	providerStatus int    // answer with this status and nothing else; 0 is 200
	rejectInput    bool   // the input schema refuses every input
	approval       bool   // a human has to decide first
	otherHashes    bool   // the record of the approval has other hashes than its submitter was told
	loseDecision   bool   // the reply to a decision never arrives
	dropStatus     bool   // the aggregate lacks http_status
	alter, by      string // words changed in the aggregate only
	stored         storedTraps
	key            KeyTerms // where they are not the operation's
}

// bytes is what the provider sends for the n-th run that its endpoint is asked
// for. The events of a run that was started before do not depend on who reads
// them.
func (sc *Scenario) bytes(n int) recording {
	if sc.contract().pathID == "run_id" {
		return sc.play.frames
	}
	return sc.play.frames.again(n)
}

// distort makes the aggregate differ from the chunks where a scenario is about
// such a daemon. The outcome was classified before.
func (p script) distort(agg *aggregate) {
	if p.dropStatus {
		agg.HTTPStatus = 0
	}
	if p.alter == "" {
		return
	}
	agg.Events = slices.Clone(agg.Events)
	for i, h := range agg.Events {
		agg.Events[i].Data = bytes.ReplaceAll(h.Data, []byte(p.alter), []byte(p.by))
		agg.Events[i].RawData = strings.ReplaceAll(h.RawData, p.alter, p.by)
	}
}

// responsesDemo asks for a response that is kept.
const responsesDemo = `{"body":{"input":"Summarize the incident notes","store":true}}`

// Scenarios returns every scenario in the order of the documentation.
func Scenarios() []Scenario { return slices.Clone(allScenarios()) }

// allScenarios reads the recordings once. Nothing changes a scenario in place.
var allScenarios = sync.OnceValue(func() []Scenario {
	return slices.Concat(
		group("chat_stream", `{"prompt":"Summarize the incident notes","session_id":"demo-session"}`, chatStreams()),
		group("responses_stream", responsesDemo, responsesStreams()),
		group("chat", `{"prompt":"Summarize the incident notes","session_id":"demo-session"}`, []Scenario{
			{Name: "chat-sync-ok", Summary: "one answer, not streamed", play: script{frames: loadBody("chat_nonstream_ok")}},
			{Name: "chat-sync-length", Summary: "the model's output limit cuts the answer", play: script{frames: loadBody("chat_nonstream_length")}},
			{Name: "chat-sync-error", Summary: "finish error; its sentence stands as the text", play: script{frames: loadBody("chat_nonstream_error_401")}},
			{Name: "chat-sync-500", Summary: "the provider answers 500", play: script{providerStatus: 500}},
		}),
		group("responses", responsesDemo, []Scenario{
			{Name: "responses-sync-ok", Summary: "two function calls and one answer, not streamed", play: script{frames: loadBody("responses_nonstream_ok")}},
		}),
		group("response_get", storedDemo, storedScenarios()),
		group("response_delete", storedDemo, deleteScenarios()),
		group("run_events", `{"run_id":"run_6f0d5c1b98a34e27b1c40a7d93e25f86"}`, []Scenario{
			{Name: "run-complete", Summary: "text, reasoning, tools, an approval that somebody gives, the end", play: script{frames: load("written/run_complete")}},
			{Name: "run-final-only", Summary: "no text but the whole one in run.completed", play: script{frames: load("written/run_final_only")}},
			{Name: "run-cancelled", Summary: "the run is cancelled while a tool runs", play: script{frames: load("written/run_cancelled")}},
			{Name: "run-failed", Summary: "the run fails after a tool that failed", play: script{frames: load("written/run_failed")}},
		}),
		group("session_chat_stream", `{"session_id":"demo-session","body":{"message":"Summarize the incident notes"}}`, []Scenario{
			{Name: "session-complete", Summary: "reasoning as tool.progress, which leaks into the aggregate's text, then the answer", play: script{frames: load("written/session_complete")}},
			{Name: "session-error", Summary: "a frame named error after some text", play: script{frames: load("written/session_error")}},
		}),
		group("operator", `{"input":"Clear the build folder"}`, []Scenario{
			{Name: "operator-complete", Summary: "text, reasoning, one tool, the end", play: script{frames: load("written/operator_complete")}},
			{Name: "operator-human", Summary: "the run asks for an approval; the action waits for a human", play: script{frames: load("written/run_complete")}},
			{Name: "operator-failed", Summary: "the run fails", play: script{frames: load("written/run_failed")}},
		}),
		group("health", `{}`, []Scenario{
			{Name: "health-ok", Summary: "the endpoint is well", play: script{frames: loadBody("health")}},
		}),
		group("future_stream", `{"input":"Summarize the incident notes"}`, []Scenario{
			{Name: "future-stream", Summary: "event names nobody knows, then done", play: script{frames: load("written/future_stream")}},
		}),
	)
})

// group gives scenarios of one operation what they have in common.
func group(operation, demo string, list []Scenario) []Scenario {
	for i := range list {
		list[i].Operation, list[i].Demo = operation, demo
		list[i].Mode = contracts[operation].usualMode()
	}
	return list
}

func chatStreams() []Scenario {
	const finish = `"finish_reason": "stop"`
	ok, tools, failed := load("chat_ok"), load("chat_tools"), load("chat_error_provider_401")
	some := ok.until(" help")
	return []Scenario{
		{Name: "demo", Summary: "text, two tool calls, more text", play: script{frames: tools}},
		{Name: "chat-stop", Summary: "a short answer", play: script{frames: ok}},
		{Name: "chat-tools-sequence", Summary: "four tool rounds, two of them unsuccessful", play: script{frames: load("chat_tools_sequence")}},
		{Name: "chat-unicode", Summary: "escape sequences, joiners, right-to-left text and controls in the answer", play: script{frames: load("chat_unicode")}},
		{Name: "chat-empty", Summary: "stop without any text", play: script{frames: load("chat_empty")}},
		{Name: "chat-keepalive", Summary: "66 s of silence with provider keepalives", play: script{frames: load("chat_keepalive")}},
		{Name: "chat-slow", Summary: "a word every half second for 25 s", play: script{frames: load("chat_server_shutdown")}},
		{Name: "chat-length", Summary: "the model's output limit cuts the answer", play: script{frames: load("chat_length")}},
		{Name: "chat-error", Summary: "the model's provider refuses; finish error with its reasons", play: script{frames: failed}},
		{Name: "chat-error-exception", Summary: "the agent raises; finish error that calls itself completed", play: script{frames: load("chat_error_exception")}},
		{Name: "chat-error-bare", Summary: "finish error without any reason", play: script{frames: failed.bareFinish()}},
		{Name: "chat-finish-unknown", Summary: "a finish reason nobody knows", play: script{frames: ok.edit(finish, `"finish_reason": "tool_limit"`)}},
		{Name: "chat-stop-with-error", Summary: "finish stop on a chunk that also carries an error", play: script{
			frames: ok.edit(`"total_tokens": 821}}`, `"total_tokens": 821}, "error": {"message": "the last tool result was lost", "type": "agent_error"}}`)}},
		{Name: "chat-no-finish", Summary: "[DONE] without any finish chunk", play: script{frames: ok.without(finish)}},
		{Name: "chat-tool-unfinished", Summary: "a tool that starts and never completes", play: script{
			frames: tools.without(`"toolCallId": "call_cl0ck02", "status": "completed"`)}},
		{Name: "chat-surrogates", Summary: "one emoji cut in two deltas, which the connector forwards as raw text", play: script{
			frames: ok.deltas(`"Hello!"`, `\ud83d`, `\ude80`)}},
		{Name: "chat-truncated-on-done", Summary: "the event limit falls exactly on [DONE]", MaxEvents: len(ok), play: script{frames: ok}},
		{Name: "chat-truncated-midway", Summary: "the event limit cuts the text", MaxEvents: 5, play: script{frames: ok}},
		{Name: "chat-upstream-close", Summary: "the provider closes in the middle", play: script{frames: some}},
		{Name: "chat-transport-break", Summary: "the provider's connection breaks", play: script{frames: load("chat_server_cancelled"), end: endCut}},
		{Name: "chat-rate-limited", Summary: "the provider answers 429", play: script{providerStatus: 429}},
		{Name: "chat-endpoint-unauthorized", Summary: "the provider answers 401", play: script{providerStatus: 401}},
		{Name: "chat-early-rejection", Summary: "the input is refused; nothing is stored", play: script{frames: ok, rejectInput: true}},
		{Name: "chat-handler-failed", Summary: "the handler fails after some chunks; nothing more is stored", play: script{frames: some, end: endCrash}},
		{Name: "chat-publication", Summary: "a frame named error closes the chunk log, the next one is refused", play: script{
			frames: ok.after(`"Hello!"`, "data: {\"type\": \"error\", \"message\": \"upstream hiccup\"}\n\n")}},
		{Name: "chat-output-schema", Summary: "a complete stream whose aggregate does not fit its schema", play: script{frames: ok, dropStatus: true}},
		{Name: "chat-timeout", Summary: "the deadline passes after some chunks", play: script{frames: some, end: endDeadline}},
		{Name: "chat-cancelled", Summary: "the runtime cancels the action in the middle", play: script{frames: some, end: endCancel}},
		{Name: "chat-approval", Summary: "a human has to approve first", play: script{frames: ok, approval: true}},
		{Name: "chat-conflict", Summary: "the stored aggregate has other words than the stream", play: script{frames: ok, alter: "today?", by: "tomorrow?"}},
	}
}

func responsesStreams() []Scenario {
	const status = `"status": "completed", "created_at"` // of the final object, not of an item
	ok, length := load("responses_ok"), load("responses/responses_length")
	return []Scenario{
		{Name: "responses-stop", Summary: "a short answer", play: script{frames: ok}},
		{Name: "responses-tools", Summary: "text, two function calls, more text in the same item", play: script{frames: load("responses_two_calls")}},
		{Name: "responses-large", Summary: "a tool output of 59 kB, in two lines of 68 kB", play: script{frames: load("responses_large_tool_output")}},
		{Name: "responses-failed", Summary: "response.failed after some text", play: script{frames: load("responses_failed_after_text")}},
		{Name: "responses-upstream-close", Summary: "all text, then the provider's connection breaks without a terminal event", play: script{frames: load("responses_server_shutdown"), end: endCut}},
		{Name: "responses-tools-sequence", Summary: "four function calls, two of them unsuccessful", play: script{frames: load("responses/responses_tools_sequence")}},
		{Name: "responses-empty", Summary: "the model says nothing; a sentence about that stands as the text", play: script{frames: load("responses/responses_empty")}},
		{Name: "responses-length", Summary: "the model's output limit cuts the answer, and the response calls itself completed", play: script{frames: length}},
		{Name: "responses-single-delta", Summary: "the whole text in one delta", play: script{frames: load("responses/responses_single_delta")}},
		{Name: "responses-keepalive-tool", Summary: "a function call of 34 s with a provider keepalive", play: script{frames: load("responses/responses_keepalive_tool")}},
		{Name: "responses-large-delta", Summary: "one delta of 102 kB, and three more lines of that size", play: script{frames: load("responses/responses_large_delta")}},
		{Name: "responses-incomplete", Summary: "response.incomplete ends the stream", play: script{
			frames: length.edit("event: response.completed", "event: response.incomplete").
				edit(`"type": "response.completed"`, `"type": "response.incomplete"`).
				edit(status, `"status": "incomplete", "created_at"`)}},
		{Name: "responses-envelope-incomplete", Summary: "response.completed around an object that says incomplete", play: script{
			frames: length.edit(status, `"status": "incomplete", "created_at"`)}},
		{Name: "responses-no-created", Summary: "no response.created, and a final object without output", play: script{
			frames: ok.without("event: response.created").cut(`, "output": [{`, `, "usage"`).numbered()}},
		{Name: "responses-two-messages", Summary: "two messages whose deltas interleave, a function call between them, every repeat of the full text", play: script{
			frames: load("written/responses_two_messages")}},
		{Name: "responses-parallel-calls", Summary: "two function calls that overlap; the second one ends first", play: script{
			frames: load("written/responses_parallel_calls")}},
		{Name: "responses-done-differs", Summary: "output_text.done has other words than its deltas", play: script{
			frames: ok.edit(`"text": "Hello! How can I help you today?", "logprobs"`, `"text": "Hello! How can I help you tomorrow?", "logprobs"`)}},
		{Name: "responses-truncated-on-completed", Summary: "the event limit falls exactly on response.completed", MaxEvents: len(ok), play: script{frames: ok}},
	}
}

// bareFinish cuts everything behind the choices of the finish chunk, which is
// what the provider writes when its own writer crashed.
func (rec recording) bareFinish() recording {
	at := rec.find(`"finish_reason": "error"`)
	head, _, _ := strings.Cut(string(rec[at].data), `, "usage"`)
	out := slices.Clone(rec)
	out[at].data = []byte(head + "}\n\n")
	return out
}
