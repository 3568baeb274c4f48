package e2egolden_test

import (
	"os"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/devserver"
)

// private stands for the words of a person in the inputs below. No message may
// repeat it.
const private = "the-words-of-a-person"

// refusal is a call that ends before anything is sent, and what its message has
// to name: what is wrong, why, and the right form.
type refusal struct {
	rule  string
	op    string
	input string
	says  []string
	args  []string // in place of the input
}

func (tc refusal) command(url string) []string {
	if tc.args != nil {
		return append([]string{"action", "call", url}, tc.args...)
	}
	return []string{"action", "call", url, "cap:hermes_agent:chat-stop:" + tc.op, "--input", tc.input}
}

var longHeader = strings.Repeat("s", 257)

// chatRefusals and responsesRefusals hold for the plain operation and for the
// one that streams.
var chatRefusals = []refusal{
	{rule: "no source of the question", input: `{"model":"m"}`, says: []string{"exactly one of prompt, query and messages", "schema", `{"prompt":"…"`, `"messages":[{"role":"user"`}},
	{rule: "two sources", input: `{"prompt":"` + private + `","query":"x"}`, says: []string{"exactly one of prompt, query and messages, not 2", `{"prompt":"…"`}},
	{rule: "three sources", input: `{"prompt":"x","query":"x","messages":[]}`, says: []string{"not 3", `{"prompt":"…"`}},
	{rule: "a blank prompt", input: `{"prompt":" \n\t"}`, says: []string{"prompt is blank", "the connector refuses", `{"prompt":"…"`}},
	{rule: "an empty query", input: `{"query":""}`, says: []string{"query is blank", "the connector refuses"}},
	{rule: "a prompt that is no string", input: `{"prompt":["` + private + `"]}`, says: []string{"prompt is no string", "schema"}},
	{rule: "messages without a message", input: `{"messages":[]}`, says: []string{"messages", "at least one message", `"messages":[{"role":"user","content":"…"}]`}},
	{rule: "messages that are no array", input: `{"messages":"` + private + `"}`, says: []string{"messages is no array", `"messages":[{"role":"user","content":"…"}]`}},
	{rule: "a message that is no object", input: `{"messages":["` + private + `"]}`, says: []string{"messages[0] is no message object", `{"role":"user","content":"…"}`}},
	{rule: "max_tokens below 0", input: `{"prompt":"x","max_tokens":-1}`, says: []string{"max_tokens is below 0", "the connector refuses", `"max_tokens":1024`}},
}

var responsesRefusals = []refusal{
	{rule: "no input", input: `{"body":{"store":true}}`, says: []string{"has no input", "the provider requires", `{"body":{"input":"…","store":true}}`}},
	{rule: "no input and no body", input: `{"model":"m"}`, says: []string{"has no input", `{"body":{"input":"…","store":true}}`}},
	{rule: "a blank input", input: `{"body":{"input":"  "}}`, says: []string{"input is blank", "the provider refuses"}},
	{rule: "an empty input", input: `{"body":{"input":[]}}`, says: []string{"input is empty", "the provider refuses"}},
	{rule: "an input that is an object", input: `{"body":{"input":{"text":"` + private + `"}}}`, says: []string{"neither a string nor an array of strings or messages"}},
	{rule: "an input that is a number", input: `{"body":{"input":7}}`, says: []string{"neither a string nor an array of strings or messages"}},
	{rule: "an input with a number in it", input: `{"body":{"input":["x",7]}}`, says: []string{"input[1] is neither a string nor a message"}},
	{rule: "a body that is no object", input: `{"body":"` + private + `"}`, says: []string{"body is no JSON object", `{"body":{"input":"…","store":true}}`}},
	{rule: "a history that is no array", input: `{"body":{"input":"x","conversation_history":"` + private + `"}}`, says: []string{"conversation_history is no array", `[{"role":"user","content":"…"},…]`}},
	{rule: "an entry without content", input: `{"body":{"input":"x","conversation_history":[{"role":"user","content":"a"},{"role":"user"}]}}`, says: []string{"conversation_history[1] has no role or no content"}},
	{rule: "an entry without role", input: `{"body":{"input":"x","conversation_history":[{"content":"` + private + `"}]}}`, says: []string{"conversation_history[0] has no role or no content"}},
	{rule: "an entry that is no object", input: `{"body":{"input":"x","conversation_history":["` + private + `"]}}`, says: []string{"conversation_history[0]", `{"role":"user","content":"…"}`}},
	{rule: "a conversation and a previous response", input: `{"body":{"input":"x","conversation":"c","previous_response_id":"resp_1"}}`, says: []string{"conversation and previous_response_id", "name one of them"}},
	{rule: "the same two without a body", input: `{"input":"x","conversation":"c","previous_response_id":"resp_1"}`, says: []string{"conversation and previous_response_id", "name one of them"}},
	{rule: "session_id inside the body", input: `{"body":{"input":"x","session_id":"s"}}`, says: []string{"session_id stands inside body", "does not read it", `{"body":{"input":…,"store":true},"session_id":…}`}},
	{rule: "session_key inside the body", input: `{"body":{"input":"x","session_key":"s"}}`, says: []string{"session_key stands inside body", `{"body":{"input":…,"store":true},"session_key":…}`}},
	{rule: "max_events inside the body", input: `{"body":{"input":"x","max_events":512}}`, says: []string{"max_events stands inside body", `{"body":{"input":…,"store":true},"max_events":…}`}},
	{rule: "a key inside the body", input: `{"body":{"input":"x","idempotency_key":"` + private + `"}}`, says: []string{"idempotency_key", "--idempotency-key"}},
	{rule: "session_key and no body", input: `{"input":"x","session_key":"s"}`, says: []string{"session_key without a body", "sent to the provider as JSON", `{"body":{"input":…,"store":true},"session_key":…}`}},
	{rule: "max_events and no body", input: `{"input":"x","max_events":512}`, says: []string{"max_events without a body", `{"body":{"input":…,"store":true},"max_events":…}`}},
}

// anyRefusals hold for every operation; so do those of the command line.
var anyRefusals = []refusal{
	{rule: "an input that is an array", input: `["` + private + `"]`, says: []string{"no JSON object", "{…}", "--prompt"}},
	{rule: "an input that is a string", input: `"` + private + `"`, says: []string{"no JSON object"}},
	{rule: "an input that is null", input: `null`, says: []string{"no JSON object"}},
	{rule: "an input that is no JSON", input: `{"prompt":"` + private, says: []string{"not one valid JSON value", "--prompt"}},
	{rule: "two objects", input: `{} {}`, says: []string{"not one valid JSON value"}},
	{rule: "a key of the runtime", input: `{"prompt":"x","_aip":{}}`, says: []string{"_aip", "belongs to the runtime", "leave the key out"}},
	{rule: "a key of its own", input: `{"prompt":"x","idempotency_key":"` + private + `"}`, says: []string{"idempotency_key", "--idempotency-key", "belongs to the action"}},
	{rule: "an empty session_id", input: `{"prompt":"x","session_id":""}`, says: []string{"session_id is empty", "HTTP header", "1 to 256 visible ASCII"}},
	{rule: "a session_id of 257", input: `{"prompt":"x","session_id":"` + longHeader + `"}`, says: []string{"session_id has 257", "256", "HTTP header"}},
	{rule: "a session_key of 257", input: `{"prompt":"x","session_key":"` + longHeader + `"}`, says: []string{"session_key has 257", "256", "HTTP header"}},
	{rule: "a session_id with a space", input: `{"prompt":"x","session_id":"a b"}`, says: []string{"session_id is not visible ASCII", "HTTP header"}},
	{rule: "a session_key that is not ASCII", input: `{"prompt":"x","session_key":"schlüssel"}`, says: []string{"session_key is not visible ASCII", "HTTP header"}},
	{rule: "a session_id with a line end", input: `{"prompt":"x","session_id":"a\nb"}`, says: []string{"session_id is not visible ASCII"}},
	{rule: "a session_id that is a number", input: `{"prompt":"x","session_id":7}`, says: []string{"session_id is no string"}},
	{rule: "max_events of 0", input: `{"prompt":"x","max_events":0}`, says: []string{"max_events", "1 to 100000", "the connector"}},
	{rule: "max_events of 100001", input: `{"prompt":"x","max_events":100001}`, says: []string{"max_events", "1 to 100000"}},
	{rule: "max_events below 0", input: `{"prompt":"x","max_events":-1}`, says: []string{"max_events", "1 to 100000"}},
	{rule: "max_events as a fraction", input: `{"prompt":"x","max_events":512.0}`, says: []string{"max_events", "whole number"}},
	{rule: "max_events as a text", input: `{"prompt":"x","max_events":"512"}`, says: []string{"max_events", "whole number"}},
	{rule: "max_events as null", input: `{"prompt":"x","max_events":null}`, says: []string{"max_events", "whole number"}},
}

const demoCapability = "cap:hermes_agent:chat-stop:chat_stream"

var lineRefusals = []refusal{
	{rule: "an empty endpoint", args: []string{"cap:hermes_agent::chat_stream", "--prompt", private}, says: []string{"empty endpoint", "--endpoint ENDPOINT", "cap:hermes_agent:ENDPOINT:chat_stream"}},
	{rule: "a bare operation", args: []string{"chat_stream", "--prompt", private}, says: []string{"the endpoint is missing", "--endpoint ENDPOINT"}},
	{rule: "a blank key", args: []string{demoCapability, "--prompt", "x", "--idempotency-key", " "}, says: []string{"--idempotency-key is blank", "protects nothing", "one key for exactly this intent"}},
	{rule: "an input and a prompt", args: []string{demoCapability, "--prompt", private, "--input", "{}"}, says: []string{"--input and --prompt"}},
	{rule: "neither", args: []string{demoCapability}, says: []string{"no input", "--input JSON|@FILE|-", "--prompt TEXT|@FILE|-"}},
	{rule: "a blank prompt", args: []string{demoCapability, "--prompt", "  "}, says: []string{"prompt is blank", "the connector refuses", "--prompt"}},
	{rule: "a prompt for what takes none", args: []string{"cap:hermes_agent:run-complete:run_events", "--prompt", private}, says: []string{"chat and responses operations only", "--input"}},
	{rule: "an id that is none", args: []string{demoCapability, "--prompt", "x", "--action-id", "run_1"}, says: []string{"no action id", "act_"}},
	{rule: "the id of a response", args: []string{demoCapability, "--prompt", "x", "--action-id", "resp_1"}, says: []string{"stored response", "aipctl response get"}},
	{rule: "the id of an approval", args: []string{demoCapability, "--prompt", "x", "--action-id", "appr_1"}, says: []string{"approval", "aipctl approval get"}},
	{rule: "an id that is too long", args: []string{demoCapability, "--prompt", "x", "--action-id", "act_" + strings.Repeat("a", 121)}, says: []string{"too long", "120"}},
	{rule: "a mode nobody has", args: []string{demoCapability, "--prompt", "x", "--mode", "later"}, says: []string{"auto, sync, async or streaming"}},
	{rule: "a check and nobody who waits", args: []string{demoCapability, "--prompt", "x", "--detach", "--effect-check", "true"}, says: []string{"--effect-check", "--detach", "does not wait"}},
	{rule: "no state file", args: []string{demoCapability, "--prompt", "x", "--state", "off"}, says: []string{"state file", "before it is sent", "--state FILE"}},
}

// TestRefusedBeforeAnythingIsSent holds each refusal to its exit code, to a
// message that helps and repeats nothing private, and to silence: no request, no
// byte in the state file, none on stdout.
func TestRefusedBeforeAnythingIsSent(t *testing.T) {
	server, url := embedded(t, devserver.Options{})
	check := func(name string, tc refusal) {
		t.Run(name+"/"+tc.rule, func(t *testing.T) {
			w := newWorld(t)
			s := w.run(tc.command(url)...)
			if s.code != 2 || s.stdout != "" {
				t.Errorf("exit code %d and stdout %q, want 2 and nothing", s.code, s.stdout)
			}
			for _, say := range tc.says {
				if !strings.Contains(s.stderr, say) {
					t.Errorf("the message does not say %q:\n%s", say, s.stderr)
				}
			}
			if strings.Contains(s.stderr, private) {
				t.Errorf("the message repeats the input:\n%s", s.stderr)
			}
			if _, err := os.Stat(w.env["AIPCTL_STATE"]); !os.IsNotExist(err) {
				t.Errorf("something was written (%v)", err)
			}
		})
	}
	for _, op := range []string{"chat", "chat_stream"} {
		for _, tc := range chatRefusals {
			tc.op = op
			check(op, tc)
		}
	}
	for _, op := range []string{"responses", "responses_stream"} {
		for _, tc := range responsesRefusals {
			tc.op = op
			check(op, tc)
		}
	}
	for _, op := range []string{"chat_stream", "responses_stream", "run_events", "session_chat_stream", "operator", "future_stream"} {
		for _, tc := range anyRefusals {
			tc.op = op
			check(op, tc)
		}
	}
	for _, tc := range lineRefusals {
		check("command line", tc)
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests were made, want none", n)
	}
}

// TestEnvelopeOverTwoMiB has an input that no daemon takes, inline, from a file
// and from stdin.
func TestEnvelopeOverTwoMiB(t *testing.T) {
	server, url := embedded(t, devserver.Options{})
	// Inside the bound by itself, and over it with the envelope around.
	tight := `{"prompt":"` + strings.Repeat("x", 2<<20-40) + `"}`
	file := t.TempDir() + "/input.json"
	if err := os.WriteFile(file, []byte(strings.Replace(tight, "x", strings.Repeat("x", 100), 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	for rule, run := range map[string]func(*world) shot{
		"the envelope": func(w *world) shot {
			w.stdin = tight
			return w.run("action", "call", url, demoCapability, "--input", "-")
		},
		"a file": func(w *world) shot { return w.run("action", "call", url, demoCapability, "--input", "@"+file) },
		"a text": func(w *world) shot { return w.run("action", "call", url, demoCapability, "--prompt", "@"+file) },
		"dry run": func(w *world) shot {
			w.stdin = tight
			return w.run("action", "call", url, demoCapability, "--input", "-", "--dry-run")
		},
	} {
		t.Run(rule, func(t *testing.T) {
			w := newWorld(t)
			s := run(w)
			if s.code != 2 || !strings.Contains(s.stderr, "2 MiB") || !strings.Contains(s.stderr, "shorten") {
				t.Errorf("exit code %d, %s", s.code, tail(s.stderr))
			}
			if _, err := os.Stat(w.env["AIPCTL_STATE"]); !os.IsNotExist(err) {
				t.Errorf("something was written (%v)", err)
			}
		})
	}
	if n := len(server.Requests()); n != 0 {
		t.Errorf("%d requests were made, want none", n)
	}
}

// TestAnIDIsSubmittedOnce refuses an id that has an intent in the state file,
// whatever the daemon, and says how to read it.
func TestAnIDIsSubmittedOnce(t *testing.T) {
	_, url := embedded(t, devserver.Options{})
	other, otherURL := embedded(t, devserver.Options{})
	w := newWorld(t)
	const id = "act_only-once"
	call := func(url, input string) shot {
		return w.run("action", "call", url, demoCapability, "--action-id", id, "--input", input)
	}
	if s := call(url, `{"prompt":"x","session_id":"s"}`); s.code != 0 {
		t.Fatalf("the first call: exit code %d, %s", s.code, s.stderr)
	}
	before := len(w.state())
	for rule, s := range map[string]shot{
		"the same daemon":  call(url, `{"prompt":"x","session_id":"s"}`),
		"another daemon":   call(otherURL, `{"prompt":"x","session_id":"s"}`),
		"another input":    call(otherURL, `{"prompt":"y","session_id":"s"}`),
		"a dry run":        w.run("action", "call", otherURL, demoCapability, "--action-id", id, "--prompt", "x", "--dry-run"),
		"nobody to answer": call("http://127.0.0.1:1", `{"prompt":"x","session_id":"s"}`),
	} {
		if s.code != 2 || !strings.Contains(s.stderr, id) || !strings.Contains(s.stderr, "intent") || !strings.Contains(s.stderr, "next: read it, or choose another action id: aipctl action events "+url+" "+id+" --follow --include-chunks") {
			t.Errorf("%s: exit code %d, %s", rule, s.code, s.stderr)
		}
	}
	if n := len(w.state()); n != before {
		t.Errorf("%d records were written, want none", n-before)
	}
	if n := len(other.Requests()); n != 0 {
		t.Errorf("%d requests were made, want none", n)
	}
}

// TestWarnedBeforeItIsSent holds each warning to its words, to a place before
// the answer, and to changing nothing: the call runs and is accepted.
func TestWarnedBeforeItIsSent(t *testing.T) {
	const chat, responses = "chat-stop:chat_stream", "responses-stop:responses_stream"
	_, url := embedded(t, devserver.Options{})
	for _, tc := range []struct {
		rule, capability, input string
		says                    []string // nothing: no warning of the input at all
	}{
		{"chat without a session", chat, `{"prompt":"x"}`, []string{"no session_id", "never comes back"}},
		{"a session beside earlier messages", chat, `{"messages":[{"role":"user","content":"a"},{"role":"user","content":"b"}],"session_id":"s"}`, []string{"session_id is given together with earlier messages", "own transcript"}},
		{"messages that end with the assistant", chat, `{"messages":[{"role":"assistant","content":"a"}],"session_id":"s"}`, []string{"last message is not the user's"}},
		{"an input that ends with the assistant", responses, `{"body":{"input":[{"role":"user","content":"a"},{"role":"assistant","content":"b"}]}}`, []string{"last item of input is not the user's"}},
		{"a history beside a previous response", responses, `{"body":{"input":"x","previous_response_id":"resp_1","conversation_history":[{"role":"user","content":"a"}]}}`, []string{"conversation_history is given beside previous_response_id"}},
		{"a conversation nobody has seen", responses, `{"body":{"input":"x","conversation":"c-1"}}`, []string{"not seen the conversation", "begins a new one"}},
		{"a key that looks like a credential", chat, `{"prompt":"x","session_id":"s","metadata":{"deep":[{"api_key":"` + private + `"}]}}`, []string{"look like credentials"}},
		{"a low max_events", chat, `{"prompt":"x","session_id":"s","max_events":255}`, []string{"max_events 255 is low"}},
		{"max_events of 256 is none", chat, `{"prompt":"x","session_id":"s","max_events":256}`, nil},
		{"a session and one message is none", chat, `{"messages":[{"role":"user","content":"a"}],"session_id":"s"}`, nil},
		{"the whole form of responses is none", responses, `{"body":{"model":"hermes-agent","input":"x","instructions":"i","store":true,"truncation":"auto"},"session_key":"support:review","max_events":512}`, nil},
		{"a previous response alone is none", responses, `{"body":{"input":"x","previous_response_id":"resp_1","store":true}}`, nil},
		{"a history alone is none", responses, `{"body":{"input":"x","conversation_history":[{"role":"user","content":"a"}]}}`, nil},
		{"an array of texts and messages is none", responses, `{"body":{"input":["a",{"role":"user","content":"b"}]}}`, nil},
		{"the form without a body is none", responses, `{"input":"x","store":true}`, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			s := w.run("action", "call", url, "cap:hermes_agent:"+tc.capability, "--input", tc.input, "-o", "jsonl")
			all, o := records(t, s)
			if s.code != 0 || o.Verdict != "accepted" {
				t.Errorf("exit code %d and %s, want 0 and accepted: %s", s.code, o.Verdict, s.stderr)
			}
			var said string
			for i, r := range all {
				if r.Type != "warning" || r.Code != "input" {
					continue
				}
				said += r.line
				if i == 0 || len(ofType(all[:i], "chunk")) > 0 {
					t.Errorf("the warning is record %d, behind a chunk or before the identity", i)
				}
			}
			for _, say := range tc.says {
				if !strings.Contains(said, say) {
					t.Errorf("no warning says %q: %s", say, said)
				}
			}
			if tc.says == nil && said != "" {
				t.Errorf("it warns: %s", said)
			}
			for _, c := range ofType(all, "warning") {
				if strings.Contains(c.line, private) {
					t.Errorf("a warning repeats the input: %s", c.line)
				}
			}
		})
	}
	t.Run("a conversation that this file knows", func(t *testing.T) {
		w := newWorld(t)
		call := []string{"action", "call", url, "cap:hermes_agent:" + responses, "--input", `{"body":{"input":"x","conversation":"c-2"}}`}
		if first := w.run(call...); !strings.Contains(first.stderr, "not seen the conversation") {
			t.Errorf("the first call does not warn: %s", first.stderr)
		}
		if second := w.run(call...); second.code != 0 || strings.Contains(second.stderr, "not seen the conversation") {
			t.Errorf("the second call: exit code %d, %s", second.code, second.stderr)
		}
	})
}
