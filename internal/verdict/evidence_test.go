package verdict

import (
	"fmt"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// The frames of a chat stream to which nothing can be objected.
var goodChat = []string{
	`{"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":"Three tanks"},"finish_reason":null}]}`,
	`{"choices":[{"index":0,"delta":{"content":" are full."},"finish_reason":null}]}`,
	finishFrame(`"stop"`, ""),
	`"[DONE]"`,
}

// finishAt is the position of the finish chunk in goodChat, contentAt that of
// a chunk with text.
const (
	finishAt  = 3
	contentAt = 2
)

// finishFrame is a finish chunk whose finish_reason is spelled as given; more
// is put behind the usage.
func finishFrame(reason, more string) string {
	return `{"choices":[{"index":0,"delta":{},"finish_reason":` + reason + `}],"usage":{"prompt_tokens":3,"completion_tokens":4,"total_tokens":7}` + more + `}`
}

// read is what a stream of these frames says.
func read(frames ...string) transcript.Facts {
	t := transcript.New()
	for i, data := range frames {
		t.Apply(uint64(i), hermes.Frame(&aip.Frame{Data: jsontext.Value(data)}))
	}
	return t.Facts()
}

// aggregate is the result of a stream of n frames that went well.
func aggregate(n int) *aip.ActionResult {
	yes, no := true, false
	return &aip.ActionResult{Status: aip.StatusCompleted, Output: &aip.Output{HasEvents: true, Events: n, Terminal: &yes, Truncated: &no}}
}

// chat is the evidence of a chat stream of these frames, read from its start
// and retained in full.
func chat(frames ...string) Evidence {
	return Evidence{
		Operation: "chat_stream",
		Result:    aggregate(len(frames)),
		Facts:     read(frames...),
		Integrity: Integrity{FromStart: true, Seen: len(frames)},
	}
}

// good is evidence that is accepted, for an operation of each family.
func good(operation string) Evidence {
	ev := Evidence{Operation: operation, Result: &aip.ActionResult{Status: aip.StatusCompleted, Output: &aip.Output{Rest: map[string]jsontext.Value{}}}}
	if Streams(operation) {
		ev.Result = aggregate(3)
		ev.Integrity = Integrity{FromStart: true, Seen: 3}
	}
	switch familyOf(operation) {
	case chatFamily:
		ev.Facts = read(goodChat...)
	case responsesFamily:
		ev.Facts.Response = &transcript.Response{Event: "response.completed", ID: "resp_1", Status: "completed"}
		ev.Facts.Events = map[string]bool{"response.completed": true}
	case runFamily:
		ev.Facts.Named = "run.completed"
	case operatorFamily:
		ev.Result.Output.Rest["status"] = jsontext.Value(`"completed"`)
	}
	if operation == OpResponseDelete {
		ev.Result.Output.Rest = aip.Members(jsontext.Value(`{"id":"resp_1","object":"response","deleted":true}`))
	}
	return ev
}

// operations are those whose finish has a rule, and one of each other kind.
var operations = []string{
	"chat", "chat_stream", "responses", "responses_stream", "run_events", "session_chat_stream", "operator",
	"response_get", "response_delete", "run_start", "health", "never_seen", "never_seen_stream", "",
}

// failed turns evidence into that of a failed action with this error.
func failed(ev Evidence, e *aip.ProtocolError) Evidence {
	res := *ev.Result
	res.Status, res.Error = aip.StatusFailed, e
	ev.Result = &res
	return ev
}

// result decodes an ActionResult as the daemon writes it.
func result(t *testing.T, body string) *aip.ActionResult {
	t.Helper()
	reply, err := aip.DecodeReply(reader(`{"action_result":`+body+`}`), aip.ResultDecoding{})
	if err != nil {
		t.Fatal(err)
	}
	return reply.Result
}

// want is a row's verdict: a word of the exit table with its own number.
func want(t *testing.T, got Reading, word, code string) {
	t.Helper()
	if got.String() != word || fmt.Sprint(got.Code()) != code {
		t.Errorf("verdict %s (%d), want %s (%s)", got, got.Code(), word, code)
	}
}

func expect(t *testing.T, ev Evidence, verdict Reading) Judgement {
	t.Helper()
	j := Judge(ev)
	if j.Verdict != verdict {
		t.Errorf("verdict %s because of %q, want %s", j.Verdict, j.Reasons, verdict)
	}
	if (j.Verdict == fault.Accepted) != (len(j.Reasons) == 0) {
		t.Errorf("verdict %s with the reasons %q", j.Verdict, j.Reasons)
	}
	return j
}
