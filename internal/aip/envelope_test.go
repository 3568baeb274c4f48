package aip

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestAnEnvelope(t *testing.T) {
	at := time.Date(2030, 1, 15, 10, 30, 0, 104_233_000, time.FixedZone("ahead", 3600))
	const input = `{ "messages":[{"role":"user","content":"<é & \ud83d>"}], "seed":9007199254740993, "x":1.50, "a":1,"a":2 }`
	ms := uint64(1500)
	for _, tc := range []struct {
		rule   string
		action Action
		body   string
	}{
		{"the least", Action{ID: "act_1", CapabilityID: "cap:hermes_agent:lab:chat_stream", Input: raw(input)},
			`{"action":{"id":"act_1","capability_id":"cap:hermes_agent:lab:chat_stream","input":` + input + `}}`},
		{"the most", Action{ID: "act_1", CapabilityID: "c", Input: raw(`{}`), Mode: ModeStreaming, IdempotencyKey: "k/\"1\"", TimeoutMS: &ms},
			`{"action":{"id":"act_1","capability_id":"c","input":{},"mode":"streaming","idempotency_key":"k/\"1\"","timeout_ms":1500}}`},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			got, err := tc.action.Envelope("msg_1", at)
			if err != nil {
				t.Fatal(err)
			}
			want := `{"aip_version":"1.0","message_type":"aip.core.v1.action","message_id":"msg_1","sent_at":"2030-01-15T09:30:00.104233Z",` +
				`"from":{"id":"agent:aipctl:cli","kind":"agent"},"body":` + tc.body + `}`
			// Byte for byte: the input is the caller's, and nobody spells it anew.
			if diff := cmp.Diff(want, string(got)); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if !json.Valid(got) {
				t.Error("the envelope is no JSON")
			}
		})
	}
	// The last two are JSON in their place, but not the input that was given.
	for _, bad := range []string{``, `{`, `canary`, `{"a":1}}`, `{"canary":1},"mode":"async"`, `{},"idempotency_key":{"canary":1}`} {
		got, err := Action{ID: "act_1", Input: raw(bad)}.Envelope("msg_1", at)
		switch {
		case err == nil:
			t.Errorf("the input %s is taken: %s", bad, got)
		case strings.Contains(err.Error(), "canary"):
			t.Errorf("the error repeats the input: %v", err)
		}
	}
}

func TestMembers(t *testing.T) {
	for _, tc := range []struct {
		rule, in string
		want     map[string]jsontext.Value
	}{
		{"an object", `{"a":1,"b":{"c":[2]}}`, map[string]jsontext.Value{"a": raw(`1`), "b": raw(`{"c":[2]}`)}},
		{"null is a member", `{"a":null}`, map[string]jsontext.Value{"a": raw(`null`)}},
		{"of a name that stands twice the last counts", `{"a":1,"\u0061":2}`, map[string]jsontext.Value{"a": raw(`2`)}},
		{"an object that breaks off", `{"a":1,"b":`, map[string]jsontext.Value{"a": raw(`1`), "b": nil}},
		{"an empty object", `{}`, nil},
		{"an array", `[{"a":1}]`, nil},
		{"a string", `"a"`, nil},
		{"nothing", ``, nil},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Members(raw(tc.in))); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			for name, want := range tc.want {
				if want.Kind() == 'n' {
					want = nil
				}
				if got := Member(raw(tc.in), name); string(got) != string(want) {
					t.Errorf("member %s is %s, want %s", name, got, want)
				}
			}
			if got := Member(raw(tc.in), "absent"); got != nil {
				t.Errorf("a member that is absent is %s", got)
			}
		})
	}
}

func TestElements(t *testing.T) {
	if got, ok := Elements(raw(`[1,"a",null,[2],{}]`)); !ok || len(got) != 5 || string(got[3]) != `[2]` {
		t.Errorf("an array is read as %s (%v)", got, ok)
	}
	if got, ok := Elements(raw(`[]`)); !ok || len(got) != 0 {
		t.Errorf("an empty array is read as %s (%v)", got, ok)
	}
	for _, in := range []string{``, `null`, `{}`, `"[]"`, `[1`, `[1,`} {
		if got, ok := Elements(raw(in)); ok {
			t.Errorf("%s is read as the array %s", in, got)
		}
	}
}

func TestValidIsLenientInTwoThings(t *testing.T) {
	for in, want := range map[string]bool{
		`{"a":1,"a":2}`: true, "\"\xff\"": true, `"\ud800"`: true, `{}`: true, ``: false, `{`: false, `{} {}`: false, `nul`: false, `01`: false,
	} {
		if got := Valid(raw(in)); got != want {
			t.Errorf("%s is valid: %v", in, got)
		}
	}
}

// TestLifecycleKindsLeaveTheRoomToChunks: the kind that stands beside every
// chunk would fill each page before a chunk comes.
func TestLifecycleKindsLeaveTheRoomToChunks(t *testing.T) {
	if slices.Contains(LifecycleKinds, KindStreamChunk) {
		t.Errorf("%s is among them", KindStreamChunk)
	}
	if !slices.Contains(LifecycleKinds, "aip.action.result") || !slices.IsSorted(LifecycleKinds) || len(slices.Compact(slices.Clone(LifecycleKinds))) != len(LifecycleKinds) {
		t.Errorf("the kinds are %q", LifecycleKinds)
	}
}
