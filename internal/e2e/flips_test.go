package e2e_test

import (
	"bytes"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
)

// The chunks of the recording that is flipped, by what they are.
const (
	contentChunk = 5 // "The incident is "
	finishChunk  = 7 // finish_reason stop
	doneChunk    = 8 // [DONE]
)

// story is a recording that can be changed.
type story struct {
	t      *testing.T
	chunks []map[string]any
	result map[string]any
	// bytes replaces the encoding of a chunk where its spelling is the change.
	bytes map[int][]byte
}

func newStory(t *testing.T) *story {
	t.Helper()
	chunks, result := aiptest.Stream(t, "chat_stream_complete")
	s := &story{t: t, result: decode(t, result), bytes: map[int][]byte{}}
	for _, c := range chunks {
		s.chunks = append(s.chunks, decode(t, c))
	}
	return s
}

// decode keeps the digits of numbers.
func decode(t *testing.T, src []byte) map[string]any {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.UseNumber()
	var v map[string]any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

func (s *story) recording() recording {
	r := recording{capability: "cap:hermes_agent:hermes-lab:chat_stream", result: encode(s.result)}
	for i, c := range s.chunks {
		if b, ok := s.bytes[i]; ok {
			r.chunks = append(r.chunks, b)
			continue
		}
		r.chunks = append(r.chunks, encode(c))
	}
	r.readResult(s.t)
	return r
}

func (s *story) output() map[string]any { return s.result["output"].(map[string]any) }

func (s *story) events() []any { return s.output()["events"].([]any) }

// sse is the provider frame of a chunk.
func (s *story) sse(i int) map[string]any {
	return s.chunks[i]["data"].(map[string]any)["hermes_sse"].(map[string]any)
}

// both changes what the provider said in a frame, in the stream and in the
// aggregate.
func (s *story) both(i int, change func(data map[string]any)) {
	change(s.sse(i)["data"].(map[string]any))
	change(s.events()[i].(map[string]any)["data"].(map[string]any))
}

// finish changes the finish chunk's reason.
func (s *story) finish(reason any) {
	s.both(finishChunk, func(data map[string]any) { choice(data)["finish_reason"] = reason })
}

// set changes a top-level member of a frame, in both.
func (s *story) set(i int, name string, value any) {
	s.both(i, func(data map[string]any) { data[name] = value })
}

func choice(data map[string]any) map[string]any {
	return data["choices"].([]any)[0].(map[string]any)
}

// insert puts one more frame at i, in both; the later sequences move up.
func (s *story) insert(i int, data map[string]any) {
	frame := func() map[string]any {
		return map[string]any{"data": maps.Clone(data), "raw_data": "", "terminal": false}
	}
	chunk := map[string]any{"action_id": s.result["action_id"], "kind": "data", "data": map[string]any{"hermes_sse": frame()}}
	s.chunks = slices.Insert(s.chunks, i, chunk)
	s.output()["events"] = slices.Insert(s.events(), i, any(frame()))
	s.number()
}

// number gives the chunks the sequences of their places.
func (s *story) number() {
	for i, c := range s.chunks {
		c["sequence"] = json.Number(strconv.Itoa(i))
	}
}

func (s *story) loseChunks(i, n int) { s.chunks = slices.Delete(s.chunks, i, i+n) }

func (s *story) loseFrames(i, n int) { s.output()["events"] = slices.Delete(s.events(), i, i+n) }

// copyOf is a chunk that can be changed without the first.
func (s *story) copyOf(i int) map[string]any { return decode(s.t, encode(s.chunks[i])) }

func (s *story) content(i int, text string) {
	choice(s.sse(i)["data"].(map[string]any))["delta"].(map[string]any)["content"] = text
}

// status makes another result of the action; a code of "" has no error.
func (s *story) status(status, code string, details any) {
	s.result["status"] = status
	if code == "" {
		return
	}
	e := map[string]any{"code": code, "message": "see code", "category": "connector", "retryable": false}
	if details != nil {
		e["details"] = details
	}
	s.result["error"] = e
}

func otherChoice(reason any) map[string]any {
	return map[string]any{"choices": []any{map[string]any{"index": 1, "delta": map[string]any{"content": "x"}, "finish_reason": reason}}}
}

var providerError = map[string]any{"message": "the provider failed", "type": "agent_error"}

// flips changes exactly one thing, as the row of the same name says.
var flips = map[string]func(s *story){
	"unchanged": func(*story) {},

	"status-failed-stream-truncated":   failed("connector.hermes_agent.stream_truncated", nil),
	"status-failed-stream-incomplete":  failed("connector.hermes_agent.stream_incomplete", nil),
	"status-failed-stream-failed":      failed("connector.hermes_agent.stream_failed", nil),
	"status-failed-authentication":     failed("connector.hermes_agent.authentication", nil),
	"status-failed-resource-not-found": failed("resource.not_found", nil),
	"status-failed-input-schema":       failed("action.input_schema_invalid", nil),
	"status-failed-in-progress":        failed("idempotency.in_progress", nil),
	"status-failed-transport-uncertain": failed("connector.hermes_agent.transport",
		map[string]any{"uncertain_outcome": true}),
	"status-failed-transport-certain": failed("connector.hermes_agent.transport",
		map[string]any{"uncertain_outcome": false}),
	"status-failed-timeout":       failed("sla.timeout_exceeded", nil),
	"status-failed-output-schema": failed("action.output_schema_invalid", nil),
	"status-failed-invented-code": failed("example.never_seen", nil),
	"status-failed-no-error":      failed("", nil),
	"status-cancelled":            func(s *story) { s.status("cancelled", "", nil) },
	"status-pending-approval":     func(s *story) { s.status("pending_approval", "", nil) },
	"status-requires-human":       func(s *story) { s.status("requires_human", "", nil) },

	"aggregate-terminal-false":   func(s *story) { s.output()["terminal"] = false },
	"aggregate-terminal-absent":  func(s *story) { delete(s.output(), "terminal") },
	"aggregate-truncated-true":   func(s *story) { s.output()["truncated"] = true },
	"aggregate-truncated-absent": func(s *story) { delete(s.output(), "truncated") },
	"aggregate-absent":           func(s *story) { delete(s.result, "output") },
	"aggregate-text-differs":     func(s *story) { s.output()["text"] = "other words" },

	"finish-length":         func(s *story) { s.finish("length") },
	"finish-content-filter": func(s *story) { s.finish("content_filter") },
	"finish-error":          func(s *story) { s.finish("error") },
	"finish-tool-calls":     func(s *story) { s.finish("tool_calls") },
	"finish-upper-case":     func(s *story) { s.finish("STOP") },
	"finish-with-escape":    func(s *story) { s.finish("stop\x1b") },
	"finish-null":           func(s *story) { s.finish(nil) },
	"finish-empty-string":   func(s *story) { s.finish("") },
	"finish-frame-lost": func(s *story) {
		s.loseChunks(finishChunk, 1)
		s.loseFrames(finishChunk, 1)
		s.number()
	},
	"finish-then-null": func(s *story) {
		s.insert(doneChunk, map[string]any{"choices": []any{map[string]any{"index": 0, "delta": map[string]any{}, "finish_reason": nil}}})
	},
	"second-choice-open":   func(s *story) { s.insert(finishChunk, otherChoice(nil)) },
	"second-choice-length": func(s *story) { s.insert(finishChunk, otherChoice("length")) },

	"error-object-on-content-frame": func(s *story) { s.set(contentChunk, "error", providerError) },
	"error-string-on-content-frame": func(s *story) { s.set(contentChunk, "error", "boom") },
	"error-empty-string":            func(s *story) { s.set(contentChunk, "error", "") },
	"error-null":                    func(s *story) { s.set(contentChunk, "error", nil) },
	"error-deep-inside": func(s *story) {
		s.both(contentChunk, func(data map[string]any) { choice(data)["delta"].(map[string]any)["error"] = providerError })
	},
	"error-only-in-aggregate": func(s *story) {
		s.set(contentChunk, "error", providerError)
		s.loseChunks(contentChunk, 1)
	},
	"length-explained": func(s *story) {
		s.finish("length")
		s.set(finishChunk, "error", providerError)
	},
	"length-with-failed-true": func(s *story) {
		s.finish("length")
		s.set(finishChunk, "error", providerError)
		s.set(finishChunk, "hermes", map[string]any{"failed": true})
	},
	"length-error-elsewhere": func(s *story) {
		s.finish("length")
		s.set(contentChunk, "error", providerError)
	},
	"hermes-failed-true":  func(s *story) { s.set(finishChunk, "hermes", map[string]any{"failed": true}) },
	"hermes-failed-false": func(s *story) { s.set(finishChunk, "hermes", map[string]any{"failed": false}) },
	"hermes-completed-true": func(s *story) {
		s.finish("length")
		s.set(finishChunk, "hermes", map[string]any{"completed": true})
	},

	"chunk-lost-stream":    func(s *story) { s.loseChunks(contentChunk, 1) },
	"chunk-lost-aggregate": func(s *story) { s.loseFrames(doneChunk, 1) },
	"chunk-lost-both-no-events": func(s *story) {
		s.loseChunks(contentChunk, 1)
		delete(s.output(), "events")
	},
	"chunk-lost-both-shortened": func(s *story) {
		s.loseChunks(contentChunk, 1)
		s.loseFrames(contentChunk, 1)
	},
	"chunk-lost-both-and-one": func(s *story) {
		s.loseChunks(contentChunk, 2)
		s.loseFrames(contentChunk, 1)
	},
	"stream-cut-early": func(s *story) { s.chunks = s.chunks[:1] },
	"stream-none":      func(s *story) { s.chunks = nil },

	"chunk-changed-in-stream": func(s *story) { s.content(contentChunk, "The incident is not ") },
	"chunk-key-order": func(s *story) {
		s.bytes[contentChunk] = reversed(encode(s.chunks[contentChunk]), s.t)
	},
	"chunk-number-spelling": func(s *story) {
		s.sse(contentChunk)["data"].(map[string]any)["created"] = json.Number("1893456000.0")
	},
	"chunk-null-and-absent":  func(s *story) { s.sse(contentChunk)["event"] = nil },
	"chunk-raw-data-differs": func(s *story) { s.sse(contentChunk)["raw_data"] = "other bytes" },
	"chunk-twice-equal": func(s *story) {
		s.chunks = slices.Insert(s.chunks, contentChunk+1, s.copyOf(contentChunk))
	},
	"chunk-twice-different": func(s *story) {
		s.chunks = slices.Insert(s.chunks, contentChunk+1, s.copyOf(contentChunk))
		s.content(contentChunk+1, "The incident is not ")
	},
	"chunk-foreign": func(s *story) {
		c := s.copyOf(contentChunk)
		c["action_id"] = "act_0193f2a4c5d07e1b9a30000000000999"
		s.chunks = slices.Insert(s.chunks, contentChunk, c)
	},
	"chunk-above-terminal": func(s *story) {
		c := s.copyOf(contentChunk)
		c["sequence"] = json.Number(strconv.Itoa(doneChunk + 1))
		s.chunks = append(s.chunks, c)
	},
}

func failed(code string, details any) func(*story) {
	return func(s *story) { s.status("failed", code, details) }
}

// reversed spells every object of v with its keys in the other order.
func reversed(v []byte, t *testing.T) []byte {
	var members map[string]json.RawMessage
	if json.Unmarshal(v, &members) != nil {
		return v
	}
	keys := slices.Sorted(maps.Keys(members))
	slices.Reverse(keys)
	out := []byte{'{'}
	for i, k := range keys {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(append(append(out, encode(k)...), ':'), reversed(members[k], t)...)
	}
	out = append(out, '}')
	if !json.Valid(out) {
		t.Fatalf("no JSON: %s", out)
	}
	return out
}

// flaggedFlips are the rows whose change is a flag of the call.
var flaggedFlips = map[string][]string{
	"required-tool-absent": {"--require-tool", "a_tool_that_never_ran"},
	"effect-check-nonzero": {"--effect-check", "exit 1"},
}

// TestFlips changes one thing of an accepted stream at a time and takes the
// whole way to the verdict.
func TestFlips(t *testing.T) {
	rows := map[string]bool{}
	for _, row := range aiptest.Table(t, "flips.tsv") {
		name := row.Get("flip")
		rows[name] = true
		code, err := strconv.Atoi(row.Get("exit_code"))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		judged := func(t *testing.T, s shot, o outcome) {
			t.Helper()
			if s.code != code || o.ExitCode != code || o.Verdict != row.Get("verdict") {
				t.Errorf("exit code %d, in the outcome %d and %s; want %d and %s by %q\nchecks %v", s.code, o.ExitCode, o.Verdict, code, row.Get("verdict"), row.Get("rule"), o.Checks)
			}
		}
		if flags := flaggedFlips[name]; flags != nil {
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				d := serveUnsubmitted(t, newStory(t).recording())
				s := newWorld(t).run(append(append(callOf(d), "-o", "jsonl"), flags...)...)
				_, o := records(t, s.stdout)
				judged(t, s, o)
			})
			continue
		}
		change := flips[name]
		if change == nil {
			t.Errorf("the row %s has no flip", name)
			continue
		}
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			story := newStory(t)
			change(story)
			rec := story.recording()
			if name != "unchanged" && unchanged(t, rec) {
				t.Fatal("the flip changes nothing")
			}
			d := serve(t, rec)
			follow := []string{"action", "events", d.URL, d.action, "--follow", "--include-chunks", "-o", "jsonl"}
			if !d.terminal() {
				follow = append(follow, "--wait", "200ms") // it waits for a human, and so would this
			}
			s := newWorld(t).run(follow...)
			_, o := records(t, s.stdout)
			judged(t, s, o)
			s = newWorld(t).run("action", "result", d.URL, d.action, "-o", "json")
			judged(t, s, readOutcome(t, s.stdout))
			d.onlyReads(t)
		})
	}
	for name := range flips {
		if !rows[name] {
			t.Errorf("the flip %s has no row", name)
		}
	}
	for name := range flaggedFlips {
		if !rows[name] {
			t.Errorf("the flip %s has no row", name)
		}
	}
}

// unchanged reports whether a recording says the same as the one it came from,
// byte for byte in the spelling of this package.
func unchanged(t *testing.T, rec recording) bool {
	t.Helper()
	first := newStory(t).recording()
	return bytes.Equal(first.result, rec.result) && slices.EqualFunc(first.chunks, rec.chunks, func(a, b json.RawMessage) bool { return bytes.Equal(a, b) })
}
