package devserver

import (
	"encoding/json"
	"reflect"
	"testing"
)

// FuzzReadJSON: what is accepted keeps its value, and what comes out is read
// the same way again.
func FuzzReadJSON(f *testing.F) {
	for _, seed := range []string{
		`{"a": [1, 2.50, -1e3, true, null], "b": "\u00e9\ud83d\ude80\n\"\\\/"}`, `"\ud83d"`, `"\ude80\ud83d"`, `{"a":1}x`, `""`, " 7 ",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		out, ok := readJSON(text)
		if !ok {
			return
		}
		if !json.Valid([]byte(text)) || !json.Valid(out) {
			t.Fatalf("%q became %q", text, out)
		}
		if got, want := decoded(t, out), decoded(t, []byte(text)); !reflect.DeepEqual(got, want) {
			t.Errorf("%q became %q", text, out)
		}
		if again, ok := readJSON(string(out)); !ok || string(again) != string(out) {
			t.Errorf("%q is not stable: %q", out, again)
		}
	})
}

// FuzzFraming: where the bytes are cut does not matter.
func FuzzFraming(f *testing.F) {
	for _, seed := range []string{
		"data: a\n\ndata: b", "event: x\r\nid: 1\r\n\r\n: c\n\n", "data: a\n\r\ndata: b\n\n", "\n\n\n", "data\r\r\n\n",
	} {
		f.Add(seed, 2)
	}
	f.Fuzz(func(t *testing.T, body string, piece int) {
		if piece < 1 {
			return
		}
		whole, errWhole := framesOf(body, len(body)+1)
		cut, errCut := framesOf(body, piece)
		if !reflect.DeepEqual(whole, cut) || (errWhole == nil) != (errCut == nil) {
			t.Errorf("in one piece %+v %v, in pieces of %d %+v %v", whole, errWhole, piece, cut, errCut)
		}
	})
}

// FuzzEnvelope: no body makes the parser panic, and what passes has an action,
// a cancel request, or neither.
func FuzzEnvelope(f *testing.F) {
	f.Add(`{"aip_version":"1.0","message_type":"aip.core.v1.action","message_id":"msg_1","sent_at":"2030-01-15T09:30:00Z",` +
		`"body":{"action":{"id":"act_1","capability_id":"c","input":{"prompt":"x"},"timeout_ms":5}}}`)
	f.Add(`{"body":{"cancel":{"target":{"action":"act_1"}}}}`)
	f.Fuzz(func(t *testing.T, body string) {
		if _, ok := readJSON(body); !ok {
			return
		}
		env, err := parseEnvelope([]byte(body))
		switch {
		case err != nil && env != nil, err == nil && env == nil:
			t.Fatalf("envelope %v, error %v", env, err)
		case err == nil && env.Body.Action != nil && env.Body.Cancel != nil:
			t.Error("two bodies passed")
		case err == nil && env.Body.Action != nil:
			for operation := range contracts {
				sc := Scenario{Operation: operation}
				if inputViolations(&sc, env.Body.Action.Input) == nil {
					connectorInput(&sc, env.Body.Action.Input)
				}
			}
		}
	})
}
