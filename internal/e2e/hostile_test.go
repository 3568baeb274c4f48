package e2e_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// A scene is something that goes on, with a hostile string in every place where
// a string can stand.
type scene struct {
	name string
	// fields say where each string is shown: out and err for stdout and stderr
	// of text, json and jsonl for records. Where a place is not named, the
	// string may be shown or not.
	fields map[string]string
	// bytes are planted too that are no UTF-8.
	bytes bool
	// valid strings are planted only: what has half a character is no record.
	valid bool
	// word is a word of the command line in a message, which takes one way
	// through the program wherever it stands.
	word bool
	// light shows each string in one way only, by turns, so that the fields meet
	// every way with some strings. It is for what costs more than it could tell.
	light bool
	// wrapped is text whose lines are cut between words, so that a line end with
	// an indent stands for a blank.
	wrapped bool
	// folded is text whose blanks and line ends were made one blank each.
	folded bool
	// says is a word of the program's own that the scene leads to, where that
	// cannot be told by a string that is shown.
	says string
	// play prepares the scene and returns the command. put gives the JSON of
	// the string for a field, quotes included, and arg the string for an
	// argument, a file name or a header.
	play func(t *testing.T, w *world, put, arg func(field string) string) []string
}

// everyScene is every place where a string of somebody else is shown. A new
// field is a line in one of these tables.
func everyScene() []scene {
	return slices.Concat(scenes, contextScenes, offerScenes, storedScenes, approvalScenes)
}

// scenes are about actions, the state file, and the words of a command line.
var scenes = []scene{
	{
		name: "a chat",
		fields: map[string]string{
			"text":       "out json jsonl",
			"halved":     "out json jsonl",
			"tool":       "err json jsonl",
			"label":      "err jsonl",
			"call":       "json jsonl",
			"toolstatus": "err json jsonl",
			"model":      "jsonl",
			"frameid":    "jsonl",
			"framename":  "err jsonl",
			"kind":       "err jsonl",
			"evkind":     "err jsonl",
			"evtime":     "err jsonl",
			"evid":       "jsonl",
			"evdata":     "jsonl",
			"evkey":      "jsonl",
			"finish":     "err json jsonl",
			"errtype":    "err json jsonl",
			"errcode":    "err json jsonl",
			"errmsg":     "err jsonl",
			"hermes":     "json jsonl",
			"usage":      "json jsonl",
			"code":       "err json jsonl",
			"closed":     "err jsonl",
		},
		bytes: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			inner := func(field string) string { s := put(field); return s[1 : len(s)-1] }
			p := &piece{}
			p.sse(`"data":{"choices":[{"index":0,"delta":{"role":"assistant"},"finish_reason":null}],"model":` + put("model") + `}`)
			p.delta(put("text"))
			for _, unit := range units(inner("halved")) {
				p.delta(`"` + unit + `"`)
			}
			p.sse(`"event":"hermes.tool.progress","data":{"tool":` + put("tool") + `,"label":` + put("label") + `,"toolCallId":` + put("call") + `,"status":"running"}`)
			p.sse(`"event":"hermes.tool.progress","data":{"tool":"other","toolCallId":"other","status":` + put("toolstatus") + `}`)
			p.sse(`"id":` + put("frameid") + `,"event":` + put("framename") + `,"data":{}`)
			p.chunk(put("kind"), `{}`)
			p.sse(`"data":{"choices":[{"index":0,"delta":{},"finish_reason":` + put("finish") + `}],"usage":{"completion_tokens":1,"note":` + put("usage") + `}}`)
			p.sse(`"data":{"error":{"type":` + put("errtype") + `,"code":` + put("errcode") + `,"message":` + put("errmsg") + `},"hermes":{"error_code":` + put("hermes") + `}}`)
			p.chunk(`"error"`, `{"reason":`+put("closed")+`}`)
			p.events = append(p.events, `{"id":`+put("evid")+`,"kind":`+put("evkind")+`,"occurred_at":`+put("evtime")+`,"action_id":"act_h","data":{"x":`+put("evdata")+`,`+put("evkey")+`:1}}`)
			p.result = `{"action_id":"act_h","status":"failed","error":{"code":` + put("code") + `,"message":"m"},"output":{"operation":"chat_stream","events":[],"terminal":true,"truncated":false}}`
			return []string{"action", "events", p.serve(t), "act_h", "--follow", "--include-chunks", "--from", "start"}
		},
	},
	{
		name: "a response",
		fields: map[string]string{
			"itext":   "out json jsonl",
			"iid":     "json jsonl",
			"ikind":   "json jsonl",
			"call":    "err json jsonl",
			"fname":   "err json jsonl",
			"istatus": "jsonl",
			"rid":     "json jsonl",
			"rstatus": "err json jsonl",
			"rcode":   "err json jsonl",
		},
		bytes: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			p := &piece{operation: "responses_stream"}
			event := func(name, data string) { p.sse(`"event":"` + name + `","data":{"type":"` + name + `",` + data + `}`) }
			event("response.created", `"response":{"id":`+put("rid")+`,"status":"in_progress"}`)
			event("response.output_item.added", `"output_index":0,"item":{"id":`+put("iid")+`,"type":"function_call","call_id":`+put("call")+`,"name":`+put("fname")+`,"status":`+put("istatus")+`}`)
			event("response.output_item.added", `"output_index":1,"item":{"id":"m","type":"message","status":"in_progress"}`)
			event("response.output_text.delta", `"item_id":"m","output_index":1,"content_index":0,"delta":`+put("itext"))
			event("response.output_item.done", `"output_index":2,"item":{"id":"o","type":`+put("ikind")+`}`)
			event("response.failed", `"response":{"id":`+put("rid")+`,"status":`+put("rstatus")+`,"error":{"code":`+put("rcode")+`}}`)
			p.result = `{"action_id":"act_h","status":"failed","error":{"code":"connector.hermes_agent.stream_failed"},"output":{"operation":"responses_stream","events":[],"terminal":true,"truncated":false}}`
			return []string{"action", "events", p.serve(t), "act_h", "--follow", "--include-chunks", "--from", "start"}
		},
	},
	{
		name: "a run that asks for an approval",
		fields: map[string]string{
			"choice":  "err jsonl",
			"thought": "jsonl",
		},
		bytes: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			p := &piece{operation: "run_events"}
			event := func(name, data string) { p.sse(`"event":"` + name + `","data":{"event":"` + name + `",` + data + `}`) }
			event("reasoning.available", `"text":`+put("thought"))
			event("approval.request", `"choices":[`+put("choice")+`]`)
			event("run.completed", `"output":"done"`)
			p.result = `{"action_id":"act_h","status":"completed","output":{"operation":"run_events","events":[],"terminal":true,"truncated":false}}`
			return []string{"action", "events", p.serve(t), "act_h", "--follow", "--include-chunks", "--from", "start"}
		},
	},
	{
		name:   "a result that waits for an approval",
		fields: map[string]string{"approval": "json jsonl", "session": "json jsonl"},
		bytes:  true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			p := &piece{}
			p.result = `{"action_id":"act_h","status":"pending_approval","output":{"approval_id":` + put("approval") + `},"error":{"code":"policy.x","details":{"approval_id":` + put("session") + `}}}`
			p.result = strings.Replace(p.result, `"details":{"approval_id":`+put("session")+`}`, `"details":{}`, 1)
			p.sse(`"event":"session.created","data":{"event":"session.created","session_id":` + put("session") + `}`)
			p.operation = "session_chat_stream"
			return []string{"action", "result", p.serve(t), "act_h"}
		},
	},
	{
		name: "the events alone",
		fields: map[string]string{
			"evkind": "out json jsonl",
			"evtime": "out json jsonl",
			"evdata": "out json jsonl",
			"evid":   "json jsonl",
		},
		bytes: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			p := &piece{}
			p.events = append(p.events, `{"id":`+put("evid")+`,"kind":`+put("evkind")+`,"occurred_at":`+put("evtime")+`,"action_id":"act_h","data":{"x":`+put("evdata")+`}}`)
			return []string{"action", "events", p.serve(t), "act_h"}
		},
	},
	{
		name: "the durable view",
		fields: map[string]string{
			"id": "out json jsonl", "capability": "out json jsonl", "state": "out json jsonl", "queued": "out json jsonl",
			"result": "out json jsonl", "approval": "out json jsonl", "started": "out json jsonl", "updated": "out json jsonl",
			"completed": "out json jsonl", "policy": "out json jsonl", "lease": "out json jsonl",
		},
		bytes: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			view := `{"action_status":{"action_id":` + put("id") + `,"capability_id":` + put("capability") + `,"state":` + put("state") + `,"queued_state":` + put("queued") +
				`,"result_status":` + put("result") + `,"approval_id":` + put("approval") + `,"started_at":` + put("started") + `,"updated_at":` + put("updated") +
				`,"completed_at":` + put("completed") + `,"retry":{"policy":` + put("policy") + `,"attempts":12345678901234567890},"lease":{"owner":` + put("lease") + `}}}`
			return []string{"action", "status", answering(t, http.StatusOK, view, nil), "act_h"}
		},
	},
	{
		name: "an approval",
		fields: map[string]string{
			"id": "out json jsonl", "action": "out json jsonl", "capability": "out json jsonl", "who": "out json jsonl", "reason": "out json jsonl",
			"risk": "out json jsonl", "expires": "out json jsonl", "status": "out json jsonl",
		},
		bytes: true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"approval", "get", answering(t, http.StatusOK, `{"approval_record_view":`+approvalOf(put)+`}`, nil), "appr_h"}
		},
	},
	{
		name:   "the list of approvals",
		fields: map[string]string{"id": "out json jsonl", "action": "json jsonl", "status": "json jsonl"},
		bytes:  true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"approval", "list", answering(t, http.StatusOK, `{"approval_list":{"approvals":[`+approvalOf(put)+`]}}`, nil)}
		},
	},
	{
		name:   "the list of capabilities",
		fields: map[string]string{"id": "out json jsonl", "name": "json jsonl"},
		bytes:  true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			return []string{"capability", "list", answering(t, http.StatusOK, `{"capabilities":[{"capability":`+capabilityOf(put)+`}],"total":1}`, nil)}
		},
	},
	{
		name:   "a capability",
		fields: map[string]string{"name": "json jsonl", "description": "json jsonl", "risk": "out json jsonl"},
		bytes:  true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			one := strings.Replace(capabilityOf(put), put("id"), `"cap:hermes_agent:qa:chat"`, 1)
			return []string{"capability", "describe", answering(t, http.StatusOK, `{"capabilities":[{"capability":`+one+`}],"total":1}`, nil), "cap:hermes_agent:qa:chat"}
		},
	},
	{
		name:   "an error of the daemon",
		fields: map[string]string{}, // its words are not shown; its code is none
		bytes:  true,
		play: func(t *testing.T, _ *world, put, _ func(string) string) []string {
			body := `{"aip_version":"1.0","body":{"error":{"error":{"code":` + put("code") + `,"message":` + put("message") + `,"category":` + put("category") + `,"details":{"x":` + put("details") + `}}}}}`
			return []string{"action", "status", answering(t, http.StatusForbidden, body, nil), "act_h"}
		},
	},
	{
		name:   "headers",
		fields: map[string]string{"server": "err", "via": "err"},
		bytes:  true,
		play: func(t *testing.T, _ *world, _, arg func(string) string) []string {
			return []string{"action", "status", answering(t, http.StatusOK, `{"action_status":{"action_id":"act_h","state":"completed"}}`,
				[]string{"Server: " + header(arg("server")), "Via: " + header(arg("via"))}), "act_h"}
		},
	},
	{
		name:   "headers that are none",
		fields: map[string]string{},
		bytes:  true,
		play: func(t *testing.T, _ *world, _, arg func(string) string) []string {
			return []string{"action", "status", answering(t, http.StatusOK, `{"action_status":{"action_id":"act_h","state":"completed"}}`,
				[]string{"Server: " + arg("server"), arg("name") + ": x"}), "act_h"}
		},
	},
	{
		name:   "an answer from somewhere else",
		fields: map[string]string{},
		bytes:  true,
		play: func(t *testing.T, _ *world, _, arg func(string) string) []string {
			return []string{"action", "result", answering(t, http.StatusFound, "", []string{"Location: http://" + header(arg("host")) + "/", "Retry-After: " + header(arg("time"))}), "act_h"}
		},
	},
	{
		name:   "an answer of another type",
		fields: map[string]string{},
		bytes:  true,
		play: func(t *testing.T, _ *world, _, arg func(string) string) []string {
			return []string{"action", "events", speak(t, func(w *bytes.Buffer, _ *http.Request) {
				respond(w, http.StatusOK, "text/"+header(arg("type")), nil, arg("body"))
			}), "act_h", "--follow", "--wait", "0"}
		},
	},
	{
		name: "the state file",
		fields: map[string]string{
			"capability": "out json jsonl", "url": "out json jsonl", "key": "out json jsonl", "session": "out json jsonl", "conversation": "out json jsonl",
			"previous": "out json jsonl", "cursor": "out json jsonl", "response": "out json jsonl", "approval": "out json jsonl",
			"verdict": "out json jsonl", "code": "out json jsonl", "finish": "out json jsonl", "tool": "json jsonl",
		},
		valid: true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			rec := func(n int, typ, object string) string {
				return fmt.Sprintf(`{"v":1,"id":"r%d","at":"2030-01-01T00:00:0%dZ","type":"%s","action_id":"act_h","%[3]s":%s}`+"\n", n, n, typ, object)
			}
			w.writeState(t, rec(1, "intent", `{"capability_id":`+put("capability")+`,"url":`+put("url")+`,"idempotency_key":`+put("key")+`,"session_id":`+put("session")+
				`,"conversation":`+put("conversation")+`,"previous_response_id":`+put("previous")+`,"required_tools":[`+put("tool")+`],"mode":"sync"}`)+
				rec(2, "submitted", `{"reply":"result"}`)+
				rec(3, "cursor", `{"url":"http://x","principal":"p","route":"events","filter":"","cursor":`+put("cursor")+`}`)+
				rec(4, "response", `{"response_id":`+put("response")+`}`)+
				rec(5, "approval", `{"approval_id":`+put("approval")+`}`)+
				rec(6, "settled", `{"verdict":`+put("verdict")+`,"exit_code":5,"error_code":`+put("code")+`,"finish_reason":`+put("finish")+`}`))
			return []string{"state", "show", "act_h"}
		},
	},
	{
		name:   "the list of the state file",
		fields: map[string]string{"capability": "out json jsonl", "verdict": "out json jsonl", "url": "json jsonl"},
		valid:  true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeState(t, `{"v":1,"id":"r1","at":"2030-01-01T00:00:01Z","type":"intent","action_id":"act_h","intent":{"capability_id":`+put("capability")+`,"url":`+put("url")+`}}`+"\n"+
				`{"v":1,"id":"r2","at":"2030-01-01T00:00:02Z","type":"settled","action_id":"act_h","settled":{"verdict":`+put("verdict")+`,"exit_code":5}}`+"\n")
			return []string{"state", "list"}
		},
	},
	{
		name:   "the name of the state file",
		fields: map[string]string{"path": "out json jsonl"},
		bytes:  true,
		play: func(_ *testing.T, w *world, _, arg func(string) string) []string {
			return []string{"state", "path", "--state", filepath.Join(filepath.Dir(w.env["AIPCTL_STATE"]), fileName(arg("path")))}
		},
	},
	// What a command line says of its own words.
	words("an unknown command", "word", func(word string) []string { return []string{word} }),
	words("an unknown command of a group", "word", func(word string) []string { return []string{"action", word} }),
	words("an unknown flag", "word", func(word string) []string { return []string{"version", "--" + word} }),
	words("an unknown topic", "word", func(word string) []string { return []string{"help", word} }),
	words("a mode", "", func(word string) []string { return callWith("--prompt", "x", "--mode", word) }),
	words("an answer to Ctrl-C", "", func(word string) []string { return callWith("--prompt", "x", "--on-interrupt", word) }),
	words("a colour", "", func(word string) []string { return []string{"version", "--color", word} }),
	words("a time", "", func(word string) []string { return []string{"version", "--wait", word} }),
	words("a scenario", "word", func(word string) []string { return []string{"demo", "--scenario", word} }),
	words("an expression", "", func(word string) []string { return []string{"version", "--jq", "\"\" ] " + word, "-o", "json"} }),
	words("a file with the input", "", func(word string) []string { return callWith("--input", "@"+fileName(word)) }),
	words("a file with the prompt", "", func(word string) []string { return callWith("--prompt", "@"+fileName(word)) }),
	words("a token file", "word", func(word string) []string { return callWith("--prompt", "x", "--token-file", fileName(word)) }),
	words("a CA file", "word", func(word string) []string { return callWith("--prompt", "x", "--ca-file", fileName(word)) }),
	words("a state file that cannot be", "word", func(word string) []string {
		return callWith("--prompt", "x", "--state", filepath.Join("/dev/null", fileName(word)))
	}),
	words("an action id", "", func(word string) []string { return []string{"action", "status", nobody, "act_" + word} }),
	words("an id of another kind", "", func(word string) []string { return []string{"action", "status", nobody, "resp_" + word} }),
	words("a capability", "", func(word string) []string { return []string{"action", "call", nobody, word, "--prompt", "x"} }),
	words("an endpoint", "", func(word string) []string {
		return []string{"action", "call", nobody, "chat_stream", "--prompt", "x", "--endpoint", word}
	}),
	words("a URL", "", func(word string) []string { return []string{"action", "status", "http://" + word, "act_h"} }),
	words("an idempotency key", "", func(word string) []string { return callWith("--prompt", "x", "--idempotency-key", word) }),
	words("a tool", "", func(word string) []string { return callWith("--prompt", "x", "--require-tool", word) }),
	words("a session", "", func(word string) []string {
		return callWith("--input", string(encode(map[string]any{"prompt": "x", "session_id": word})))
	}),
	words("a key of the input", "", func(word string) []string {
		return callWith("--dry-run", "--input", string(encode(map[string]any{"prompt": "x", word: 1})))
	}),
}

// approvalOf is the record of an approval.
func approvalOf(put func(string) string) string {
	return `{"status":` + put("status") + `,"created_at":` + put("created") + `,"request":{"id":` + put("id") + `,"action_id":` + put("action") +
		`,"capability_id":` + put("capability") + `,"requester":{"id":` + put("who") + `,"kind":"human"},"reason":` + put("reason") +
		`,"risk":` + put("risk") + `,"expires_at":` + put("expires") + `}}`
}

// capabilityOf is an entry of the catalogue.
func capabilityOf(put func(string) string) string {
	return `{"id":` + put("id") + `,"name":` + put("name") + `,"kind":` + put("kind") + `,"description":` + put("description") + `,"risk":` + put("risk") +
		`,"stability":` + put("stability") + `,"auth":{"scheme":` + put("scheme") + `,"source":` + put("source") + `},"contract":{"side_effects":[` + put("effect") + `]}}`
}

func callWith(more ...string) []string {
	return append([]string{"action", "call", nobody, "cap:hermes_agent:qa:chat_stream"}, more...)
}

// words is a scene of one argument. Where shown names it, the message repeats
// it.
func words(name, shown string, args func(word string) []string) scene {
	s := scene{name: name, fields: map[string]string{}, bytes: true, word: true}
	if shown != "" {
		s.fields[shown] = "err json jsonl"
	}
	s.play = func(_ *testing.T, _ *world, _, arg func(string) string) []string { return args(arg("word")) }
	return s
}

// noNUL is what can stand in an argument.
func noNUL(s string) string { return strings.ReplaceAll(s, "\x00", "0") }

// fileName is a name that can stand in a folder: without what separates.
func fileName(s string) string { return strings.ReplaceAll(noNUL(s), "/", "|") }

// header is a value that a client takes for one: the controls of ASCII are
// refused before anybody looks at it.
func header(s string) string {
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '|'
		}
		return r
	}, s)
}

// looks are the ways in which a command shows things.
var looks = map[string]struct {
	place    string // of the fields: text, json, jsonl
	terminal bool
	env      string // NO_COLOR
	args     []string
	allowed  string // controls that are our own, on stderr of text
}{
	"a pipe":              {place: "text", args: []string{"-v"}, allowed: "\n"},
	"a terminal":          {place: "text", terminal: true, env: "1", args: []string{"-v"}, allowed: "\n\r"},
	"a coloured terminal": {place: "text", terminal: true, args: []string{"-v", "--color", "always"}, allowed: "\n\r"},
	"a document":          {place: "json", args: []string{"-v", "-o", "json"}},
	"JSON Lines":          {place: "jsonl", args: []string{"-v", "-o", "jsonl"}},
	"an expression":       {place: "jq", args: []string{"-o", "jsonl", "--jq", "..|strings,(objects|keys[])"}},
}

// TestHostileStrings shows every hostile string in every field, in every way.
// Nothing of it may reach a terminal or a log as a control, and it is shown all
// the same: visibly in text, exactly in JSON.
func TestHostileStrings(t *testing.T) {
	t.Parallel()
	for n, sc := range everyScene() {
		t.Run(sc.name, func(t *testing.T) {
			t.Parallel()
			for i, h := range aiptest.Hostile(t, sc.bytes) {
				for j, look := range slices.Sorted(maps.Keys(looks)) {
					turn, short := i%len(looks) == j, i == j
					always := look == "a pipe" || look == "JSON Lines" || !sc.word && look != "a coloured terminal" && look != "an expression"
					if sc.light {
						turn, short, always = (i+n)%len(looks) == j, i < len(looks), false
					}
					if !turn && !always || testing.Short() && !short {
						continue // the same code with other strings
					}
					sc.look(t, h, look)
				}
			}
		})
	}
}

func (sc scene) look(t *testing.T, h aiptest.HostileText, name string) {
	t.Helper()
	l, w := looks[name], newWorld(t)
	w.terminal = l.terminal
	if l.env != "" {
		w.env["NO_COLOR"] = l.env
	}
	if sc.valid {
		h.JSON = string(encode(h.Decoded))
	}
	put := func(field string) string { return `"` + field + "<" + h.JSON[1:len(h.JSON)-1] + ">" + field + `"` }
	arg := func(field string) string {
		return field + "<" + noNUL(h.Bytes) + ">" + field
	}
	args := append(sc.play(t, w, put, arg), "--debug-http", "--show-labels", "--show-provider-errors")
	if !slices.Contains(args, "-o") || l.place != "text" {
		args = append(args, l.args...)
	}
	s := w.run(args...)
	what := fmt.Sprintf("%q on %s", h.JSON, name)
	stderr := s.stderr
	if slices.Contains(l.args, "always") {
		stderr = ownColour.ReplaceAllString(stderr, "")
	}
	switch l.place {
	case "text", "jq":
		clean(t, what+": stdout", s.stdout, "\n\t")
		clean(t, what+": stderr", stderr, "\n"+l.allowed)
	default:
		clean(t, what+": stdout", s.stdout, "\n")
		clean(t, what+": stderr", stderr, "\n")
	}
	for _, hidden := range "\u202e\u2066\u200b\u2060\ufeff\u2028\U000e0041" {
		if strings.ContainsRune(s.stdout+stderr, hidden) {
			t.Errorf("%s: %q is passed on", what, hidden)
		}
	}
	if sc.says != "" && !strings.Contains(s.stdout+s.stderr, sc.says) {
		t.Errorf("%s: nothing says %q\nstdout: %s\nstderr: %s", what, sc.says, tail(s.stdout), tail(s.stderr))
	}
	read := func(text string) string { return text }
	if sc.wrapped {
		read = func(text string) string { return cutBetweenWords.ReplaceAllString(text, " ") }
	}
	for field, places := range sc.fields {
		for _, place := range strings.Fields(places) {
			var ok bool
			switch {
			case place == "out" && l.place == "text":
				ok = visible(read(s.stdout), field, h, sc.folded, slices.Contains(answers, field))
			case place == "err" && l.place == "text":
				ok = visible(read(stderr), field, h, sc.folded, false)
			case place == "jsonl" && l.place == "jq" && field != "halved" && !sc.word:
				ok = visible(s.stdout, field, h, false, true) || exact(s.stderr, field, h) // the expression is not asked about an error
			case place == l.place:
				ok = exact(s.stdout+s.stderr, field, h)
			default:
				continue
			}
			if !ok {
				t.Errorf("%s: the field %s is not shown (%s)\nstdout: %s\nstderr: %s", what, field, place, tail(s.stdout), tail(s.stderr))
			}
		}
	}
}

// ownColour is what the palette of the program can write.
var ownColour = regexp.MustCompile(`\x1b\[(?:0|1|2|22|31|32|33|36|39)m`)

// answers are the fields whose text is the answer: it has lines of its own.
var answers = []string{"text", "halved", "itext"}

// cutBetweenWords is where the renderer broke a line.
var cutBetweenWords = regexp.MustCompile(`\n +`)

// fold makes one blank of all that is blank.
func fold(s string) string { return strings.Join(strings.Fields(s), " ") }

// visible reports whether a field stands in a text, each hostile character in a
// form that can be read. A long one may be cut. In a folded one what is blank
// may have become a blank. A raw line end or a tab in it forges what the program
// did not write, but where lines may stand.
func visible(text, field string, h aiptest.HostileText, folded, lines bool) bool {
	for rest := text; ; {
		_, after, ok := strings.Cut(rest, field+"<")
		if !ok {
			return false
		}
		rest = after
		got, _, whole := strings.Cut(after, ">"+field)
		if cut, _, ok := strings.Cut(after, "…"); ok && (!whole || len(cut) < len(got)) {
			got, whole = cut, false
		}
		said := []string{plainly(aiptest.Unshow(got))}
		if strings.Contains(got, `\`) { // as JSON and as Go write it
			said = append(said, plainly(fromJSON(got)), plainly(fromGo(got)), plainly(fromShell(got)))
		}
		if strings.Contains(got, "~") { // as a JSON pointer writes it
			said = append(said, strings.NewReplacer("~1", "/", "~0", "~").Replace(said[0]))
		}
		if !lines && strings.ContainsAny(got, "\n\t") {
			continue
		}
		for _, want := range []string{h.Bytes, fileName(h.Bytes), noNUL(h.Bytes), header(noNUL(h.Bytes)), h.Decoded} {
			want = plainly(want)
			for _, got := range said {
				if folded {
					got, want = fold(got), fold(want)
				}
				if got == want || !whole && got != "" && strings.HasPrefix(want+">"+field, got) {
					return true
				}
			}
		}
	}
}

// fromGo reads what %q made of a word that a message repeats.
func fromGo(quoted string) string {
	s, _ := strconv.Unquote(`"` + quoted + `"`)
	return s
}

// fromShell reads a word that is quoted for a shell to be typed again.
func fromShell(quoted string) string {
	quoted = strings.ReplaceAll(quoted, `'\''`, `'`)
	return shellForm.ReplaceAllStringFunc(quoted, func(form string) string {
		n, err := strconv.ParseUint(form[1:], 8, 8)
		if err != nil {
			return form[1:]
		}
		return string([]byte{byte(n)})
	})
}

var shellForm = regexp.MustCompile(`\\(?:[0-7]{3}|['\\])`)

// fromJSON reads the inside of a JSON string, as far as it goes: some fields
// are JSON, and show it.
func fromJSON(inner string) string {
	for cut := 0; inner != "" && cut < 16; inner, cut = inner[:len(inner)-1], cut+1 {
		var s string
		if json.Unmarshal([]byte(`"`+inner+`"`), &s) == nil {
			return s
		}
	}
	return ""
}

// plainly leaves aside what is not told apart: how a byte that is no character
// is shown, and the first half of a line end.
func plainly(s string) string {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\ufffd"), "\r\n", "\n")
	return oneByOne.ReplaceAllString(s, "\ufffd")
}

var oneByOne = regexp.MustCompile("\ufffd{2,}")

// exact reports whether a field stands in some string of some record, as it was
// sent.
func exact(written, field string, h aiptest.HostileText) bool {
	want := plainly(field + "<" + h.Decoded + ">" + field)
	joined := ""
	var look func(v any) bool
	look = func(v any) bool {
		switch x := v.(type) {
		case string:
			// A message puts its own words around, and quotes, or names a file.
			return strings.Contains(plainly(x), want) || (strings.Contains(x, ">"+field) || strings.Contains(x, "…")) && visible(x, field, h, false, true)
		case []any:
			return slices.ContainsFunc(x, look)
		case map[string]any:
			if x["type"] == "text" {
				joined += fmt.Sprint(x["text"])
			}
			for k, v := range x {
				if look(k) || look(v) {
					return true
				}
			}
		}
		return false
	}
	for line := range strings.Lines(written) {
		var v any
		if json.Unmarshal([]byte(line), &v) == nil && look(v) {
			return true
		}
	}
	return strings.Contains(plainly(joined), want)
}

// units cuts the inside of a JSON string into pieces of one UTF-16 unit each,
// which is how a careless provider sends it.
func units(inner string) []string {
	var out []string
	for len(inner) > 0 {
		n := 1
		switch {
		case strings.HasPrefix(inner, `\u`):
			n = 6
		case inner[0] == '\\':
			n = 2
		default:
			for n < len(inner) && inner[n]&0xc0 == 0x80 {
				n++
			}
		}
		out = append(out, inner[:n])
		inner = inner[n:]
	}
	return out
}

// writeState writes a state file by hand.
func (w *world) writeState(t *testing.T, records string) {
	t.Helper()
	path := w.env["AIPCTL_STATE"]
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(records), 0o600); err != nil {
		t.Fatal(err)
	}
}

// piece is an action that has ended, told in raw JSON.
type piece struct {
	operation string
	chunks    []string
	events    []string
	result    string
}

func (p *piece) chunk(kind, data string) {
	p.chunks = append(p.chunks, fmt.Sprintf(`{"action_id":"act_h","sequence":%d,"kind":%s,"data":%s}`, len(p.chunks), kind, data))
}

func (p *piece) sse(frame string) {
	p.chunk(`"data"`, `{"hermes_sse":{`+frame+`,"raw_data":"","terminal":false}}`)
}

func (p *piece) delta(literal string) {
	p.sse(`"data":{"choices":[{"index":0,"delta":{"content":` + literal + `},"finish_reason":null}]}`)
}

// serve answers the reading routes. JSON is written byte for byte, for what is
// no UTF-8 has to cross the wire as it is.
func (p *piece) serve(t *testing.T) string {
	operation := p.operation
	if operation == "" {
		operation = "chat_stream"
	}
	events := func() string { return "[" + strings.Join(p.events, ",") + "]" }
	return speak(t, func(w *bytes.Buffer, r *http.Request) {
		json := func(body string) { respond(w, http.StatusOK, "application/json", nil, body) }
		switch path := r.URL.Path; {
		case strings.HasSuffix(path, "/events") && r.URL.Query().Get("follow") == "true":
			var b strings.Builder
			for _, e := range p.events {
				fmt.Fprintf(&b, "event: aip.action.note\ndata: {\"event\":%s}\nid: evt\n\n", e)
			}
			for i, c := range p.chunks {
				fmt.Fprintf(&b, "event: aip.stream.chunk\ndata: {\"chunk\":%s}\nid: chunk:%d\n\n", c, i)
			}
			b.WriteString("event: aip.stream.terminal\ndata: {\"terminal\":true,\"action_id\":\"act_h\"}\nid: aev_cursor_9\n\n")
			respond(w, http.StatusOK, "text/event-stream", nil, b.String())
		case strings.HasSuffix(path, "/events") && r.URL.Query().Get("cursor") == "aev_cursor_9":
			json(`{"action_events":{"action_id":"act_h","events":[],"chunks":[],"cursor":"aev_cursor_9","terminal":true}}`)
		case strings.HasSuffix(path, "/events"):
			json(`{"action_events":{"action_id":"act_h","events":` + events() + `,"chunks":[` + strings.Join(p.chunks, ",") + `],"cursor":"aev_cursor_9","terminal":true}}`)
		case strings.HasSuffix(path, "/result"):
			json(`{"action_result":` + p.result + `}`)
		default:
			json(`{"action_status":{"action_id":"act_h","capability_id":"cap:hermes_agent:qa:` + operation + `","state":"failed"}}`)
		}
	})
}

// answering is a daemon with one answer to everything.
func answering(t *testing.T, status int, body string, headers []string) string {
	return speak(t, func(w *bytes.Buffer, _ *http.Request) { respond(w, status, "application/json", headers, body) })
}

// speak serves HTTP by hand: a server of the standard library would mend what
// is to cross the wire.
func speak(t *testing.T, answer func(*bytes.Buffer, *http.Request)) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	speakOn(t, l, answer)
	return "http://" + l.Addr().String()
}

func speakOn(t *testing.T, l net.Listener, answer func(*bytes.Buffer, *http.Request)) {
	t.Helper()
	t.Cleanup(func() { l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				r, err := http.ReadRequest(bufio.NewReader(c))
				if err != nil {
					return
				}
				var b bytes.Buffer
				answer(&b, r)
				_, _ = c.Write(b.Bytes())
			}()
		}
	}()
}

func respond(w *bytes.Buffer, status int, contentType string, headers []string, body string) {
	fmt.Fprintf(w, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\nContent-Length: %d\r\nConnection: close\r\n", status, http.StatusText(status), contentType, len(body))
	for _, h := range headers {
		w.WriteString(h + "\r\n")
	}
	w.WriteString("\r\n" + body)
}
