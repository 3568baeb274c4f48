package e2egolden_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// TestTextThatIsHeldBack interrupts a reading where the end of the text cannot
// be judged yet: half a character, line ends that may be the last ones. The
// reading that comes back loses none of it, for no cursor passes what was not
// written.
func TestTextThatIsHeldBack(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		rule          string
		before, after []string // deltas, in JSON
		first, second string   // what each reading shows as text
		written       int      // last sequence that was written, of text and of JSON Lines
		lines         int
		firstJSONL    string
		secondJSONL   string
	}{
		{"nothing", []string{`"ab"`}, []string{`"c"`}, "ab\n", "c\n", 1, 1, "ab", "c"},
		{"half a character", []string{`"ab"`, `"\ud83d"`}, []string{`"\ude00c"`}, "ab\n", "😀c\n", 0, 0, "ab", "😀c"},
		{"half a character behind others", []string{`"ab"`, `"cd\ud83d"`}, []string{`"\ude00e"`}, "abcd\n", "cd😀e\n", 0, 0, "abcd", "cd😀e"},
		{"half a character that never gets whole", []string{`"ab"`, `"\ud83d"`}, []string{`"c"`}, "ab\n", `\ud83dc` + "\n", 0, 0, "ab", "\ufffdc"},
		{"line ends", []string{`"ab\n\n\n"`}, []string{`"c"`}, "ab\n\n\n", "c\n", 1, 1, "ab\n\n\n", "c"},
		{"line ends by themselves", []string{`"ab"`, `"\n"`, `"\n"`}, []string{`"c"`}, "ab\n\n", "c\n", 3, 3, "ab\n\n", "c"},
		{"a carriage return", []string{`"ab"`, `"\r"`}, []string{`"\nc"`}, "ab\n", "\nc\n", 0, 2, "ab\r", "\nc"},
	} {
		for _, form := range []string{"text", "jsonl"} {
			t.Run(tc.rule+"/"+form, func(t *testing.T) {
				t.Parallel()
				k := keepDeltas(t, tc.before, tc.after)
				k.publish(len(tc.before) + 1)
				w := newWorld(t)
				one := w.interrupted(func(stdout, stderr string) bool { return strings.Contains(stdout+stderr, "x.mark") }, k.come("-o", form)...)
				if one.code != fault.Interrupt.Code() {
					t.Fatalf("exit code %d:\n%s", one.code, one.stderr)
				}
				written := tc.written
				if form == "jsonl" {
					written = tc.lines
				}
				cursors := w.ofState("cursor")
				last := cursors[len(cursors)-1].Cursor
				if last.LastSequence == nil || *last.LastSequence != uint64(written) || last.Cursor != k.cursor(written+1) {
					t.Errorf("the cursor is %s behind %v, want %s behind %d", last.Cursor, last.LastSequence, k.cursor(written+1), written)
				}
				k.publish(len(k.chunks))
				two := w.run(k.come("-o", form)...)
				if two.code != 0 {
					t.Errorf("the second reading: exit code %d:\n%s", two.code, two.stderr)
				}
				if form == "text" {
					if one.stdout != tc.first || two.stdout != tc.second {
						t.Errorf("shown are %q and %q, want %q and %q", one.stdout, two.stdout, tc.first, tc.second)
					}
					return
				}
				if a, b := shownText(t, form, one), shownText(t, form, two); a != tc.firstJSONL || b != tc.secondJSONL {
					t.Errorf("the records spell %q and %q, want %q and %q", a, b, tc.firstJSONL, tc.secondJSONL)
				}
			})
		}
	}
}

// TestHeldBackToTheEnd ends an action while something is held back: it is shown
// for what it is, and nothing is shown again.
func TestHeldBackToTheEnd(t *testing.T) {
	t.Parallel()
	for rule, tc := range map[string]struct{ delta, shown string }{
		"half a character":  {`"ab\ud83d"`, `ab\ud83d` + "\n"},
		"line ends":         {`"ab\n\n\n"`, "ab\n"},
		"a carriage return": {`"ab\r"`, `ab\r` + "\n"},
	} {
		k, w := keepDeltas(t, []string{tc.delta}, nil), newWorld(t)
		one := w.run(k.come()...)
		two := w.run(k.come()...)
		if one.stdout != tc.shown || two.stdout != "" || one.code != 0 || two.code != 0 {
			t.Errorf("%s: %q and then %q (exit codes %d and %d), want %q and nothing", rule, one.stdout, two.stdout, one.code, two.code, tc.shown)
		}
	}
}

// keepDeltas serves a chat of these deltas, with a frame of an unknown name
// between the two parts.
func keepDeltas(t *testing.T, before, after []string) *keeper {
	t.Helper()
	k := &keeper{capability: "cap:hermes_agent:hermes-lab:chat_stream", action: "act_held", state: "completed"}
	var frames []json.RawMessage
	add := func(frame string) {
		sse := fmt.Sprintf(`{%s,"raw_data":"","terminal":false}`, frame)
		frames = append(frames, json.RawMessage(sse))
		k.chunks = append(k.chunks, json.RawMessage(fmt.Sprintf(
			`{"action_id":"act_held","sequence":%d,"kind":"data","data":{"hermes_sse":%s}}`, len(k.chunks), sse)))
	}
	for _, d := range before {
		add(`"data":{"choices":[{"index":0,"delta":{"content":` + d + `},"finish_reason":null}]}`)
	}
	add(`"event":"x.mark","data":{}`)
	for _, d := range after {
		add(`"data":{"choices":[{"index":0,"delta":{"content":` + d + `},"finish_reason":null}]}`)
	}
	add(`"data":{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`)
	events, err := json.Marshal(frames)
	if err != nil {
		t.Fatal(err)
	}
	k.result = json.RawMessage(fmt.Sprintf(`{"action_id":"act_held","status":"completed","output":{"endpoint_id":"hermes-lab",`+
		`"operation":"chat_stream","http_status":200,"events":%s,"text":"","terminal":true,"truncated":false}}`, events))
	k.published = len(k.chunks)
	k.serve(t)
	return k
}
