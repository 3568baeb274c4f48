package aip

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// FuzzDigest compares two values by their digests and by a slow reference.
func FuzzDigest(f *testing.F) {
	for _, pair := range [][2]string{
		{`{"a":1,"b":[2,null]}`, `{"b":[2e0,null],"a":1.0,"c":null}`},
		{`9007199254740993`, `9007199254740992`}, {`1e400`, `10e399`}, {`-0.0`, `0`},
		{`"\ud83d\ude80"`, `"🚀"`}, {`"\ud83d"`, `"\ufffd"`}, {`[[[]]]`, `[[]]`}, {`{"a":1`, `{"a":1`}, {``, `null`}, {`1 2`, `1`},
	} {
		f.Add([]byte(pair[0]), []byte(pair[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		same := DigestOf(a) == DigestOf(b)
		if bytes.Equal(a, b) && !same {
			t.Fatalf("%q is not equal to itself", a)
		}
		v, ok := parseRef(a)
		w, ok2 := parseRef(b)
		if !ok || !ok2 || v.twice() || w.twice() {
			return
		}
		if want := v.equal(w); same != want {
			t.Errorf("%s and %s are one value: %v, want %v", a, b, same, want)
		}
		if other := v.respell(nil); DigestOf(other) != DigestOf(a) {
			t.Errorf("%s and %s have two digests", a, other)
		}
	})
}

// The reference decoders read through encoding/json into maps. They are for
// JSON whose names stand once.

var errRef = fmt.Errorf("the reference refuses it")

func refObject(b []byte) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(b, &m); err != nil || m == nil {
		return nil, errRef
	}
	return m, nil
}

func refString(b json.RawMessage) string {
	var s string
	if len(b) == 0 || b[0] != '"' || json.Unmarshal(b, &s) != nil {
		return ""
	}
	return s
}

func refBool(b json.RawMessage) *bool {
	switch string(b) {
	case "true":
		return pointer(true)
	case "false":
		return pointer(false)
	}
	return nil
}

func refUint(b json.RawMessage) *uint64 {
	n, err := strconv.ParseUint(string(b), 10, 64)
	if err != nil {
		return nil
	}
	return &n
}

func refEvent(b json.RawMessage) (*Event, error) {
	if string(b) == "null" {
		return nil, nil
	}
	m, err := refObject(b)
	if err != nil {
		return nil, err
	}
	return &Event{ID: refString(m["id"]), Kind: refString(m["kind"]), OccurredAt: refString(m["occurred_at"]), ActionID: refString(m["action_id"]), Data: jsontext.Value(m["data"])}, nil
}

func refFrame(b json.RawMessage) *Frame {
	m, err := refObject(b)
	if err != nil {
		return nil
	}
	terminal := refBool(m["terminal"])
	return &Frame{Event: refString(m["event"]), ID: refString(m["id"]), Data: jsontext.Value(m["data"]), Raw: refString(m["raw_data"]), Terminal: terminal != nil && *terminal}
}

func refChunk(m map[string]json.RawMessage) (*Chunk, error) {
	seq := refUint(m["sequence"])
	if seq == nil {
		return nil, errRef
	}
	c := &Chunk{ActionID: refString(m["action_id"]), Sequence: *seq, Kind: refString(m["kind"]), Part: jsontext.Value(m["part"])}
	data := m["data"]
	if payload, err := refObject(data); err == nil {
		c.Frame = refFrame(payload["hermes_sse"])
	}
	if c.Frame == nil && string(data) != "null" {
		c.Data = jsontext.Value(data)
	}
	return c, nil
}

// refCode is the form of a code.
var refCode = regexp.MustCompile(`\A[A-Za-z0-9._-]{1,128}\z`)

func refError(b json.RawMessage) *ProtocolError {
	m, err := refObject(b)
	if err != nil {
		return nil
	}
	if inner := refError(m["error"]); inner != nil {
		return inner
	}
	code, spelling := refString(m["code"]), ""
	if !refCode.MatchString(code) {
		code, spelling = "", code
	}
	return &ProtocolError{
		Code: code, Spelling: spelling, Message: refString(m["message"]), Category: refString(m["category"]),
		Retryable: refBool(m["retryable"]), RetryAfterMS: refUint(m["retry_after_ms"]), Details: jsontext.Value(m["details"]),
	}
}

func refFollowItem(b []byte) (item FollowItem, err error) {
	m, err := refObject(b)
	if err != nil {
		return item, err
	}
	if raw, ok := m["event"]; ok {
		if item.Event, err = refEvent(raw); err != nil {
			return item, err
		}
	}
	if raw, ok := m["chunk"]; ok && string(raw) != "null" {
		inner, err := refObject(raw)
		if err != nil {
			return item, err
		}
		if item.Chunk, err = refChunk(inner); err != nil {
			return item, err
		}
	}
	item.NextCursor, item.Error = refString(m["next_cursor"]), refError(m["error"])
	item.Terminal = string(m["terminal"]) == "true"
	bareSequence, hasSequence := m["sequence"]
	if hasSequence && refUint(bareSequence) == nil {
		return item, errRef
	}
	if item.Event != nil || item.Chunk != nil || item.NextCursor != "" || item.Error != nil || item.Terminal {
		return item, nil
	}
	_, hasID := m["id"]
	_, hasTime := m["occurred_at"]
	switch {
	case hasSequence:
		item.Chunk, err = refChunk(m)
	case hasID || hasTime:
		var bare *Chunk
		m["sequence"] = json.RawMessage(`0`)
		if bare, err = refChunk(m); err == nil {
			item.Event = &Event{ID: refString(m["id"]), Kind: refString(m["kind"]), OccurredAt: refString(m["occurred_at"]), ActionID: refString(m["action_id"]), Data: bare.Data}
		}
	}
	return item, err
}

// byMeaning compares free JSON by its members: what is put together from
// pieces may be spelled anew.
var byMeaning = cmp.Comparer(func(a, b jsontext.Value) bool {
	var x, y any
	for v, into := range map[*jsontext.Value]*any{&a: &x, &b: &y} {
		if len(*v) == 0 {
			continue
		}
		dec := json.NewDecoder(bytes.NewReader(*v))
		dec.UseNumber()
		if dec.Decode(into) != nil {
			return false
		}
	}
	return (len(a) == 0) == (len(b) == 0) && reflect.DeepEqual(x, y)
})

// FuzzDecodeFollowItem reads anything without a panic, and plain JSON as the
// reference reads it.
func FuzzDecodeFollowItem(f *testing.F) {
	for _, s := range []string{
		`{"event":{"id":"evt_1","kind":"aip.stream.chunk","occurred_at":"2030-01-15T09:30:02.41Z","action_id":"act_1","data":{"sequence":3}}}`,
		`{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"event":null,"id":"1","data":{"a":[1]},"raw_data":"x","terminal":true}},"part":{"type":"text"}}}`,
		`{"data":{"x":1,"hermes_sse":{"data":"[DONE]"}},"kind":"done","action_id":"act_1","sequence":18446744073709551615}`,
		`{"id":"evt_1","kind":"k","occurred_at":"t","data":{"a":null}}`,
		`{"next_cursor":"aev_cursor_1_0"}`, `{"terminal":true,"action_id":"act_1"}`, `{"error":{"error":{"code":"c","retry_after_ms":9223372036854775807,"details":{}}}}`,
		`{"chunk":{"sequence":1,"data":{"hermes_sse":null,"\u0061":"\ud83d"}}}`, `null`, `[]`, `{"chunk":{"sequence":-1}}`, "{\"kind\":\"\xff\"}", `{"next_cursor":"a"} {}`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		got, err := DecodeFollowItem(data, Decoding{Raw: true})
		if _, rawErr := DecodeFollowItem(data, Decoding{}); (err == nil) != (rawErr == nil) {
			t.Fatalf("with raw_data the error is %v, without it %v", err, rawErr)
		}
		v, ok := parseRef(data)
		if !ok {
			if json.Valid(data) {
				return // not the reference's business
			}
			if err == nil {
				t.Fatalf("%q is no JSON and is read as %+v", data, got)
			}
			return
		}
		if v.twice() {
			return
		}
		want, refErr := refFollowItem(data)
		if (err == nil) != (refErr == nil) {
			t.Fatalf("the error is %v, the reference's %v", err, refErr)
		}
		if err != nil {
			return
		}
		if diff := cmp.Diff(want, got, byMeaning); diff != "" {
			t.Errorf("-reference +got\n%s", diff)
		}
	})
}

// FuzzDecodeReply reads anything without a panic, the same in one piece and
// byte by byte, and plain JSON as the reference reads it.
func FuzzDecodeReply(f *testing.F) {
	for _, name := range []string{"reply_result.json", "reply_failed.json", "reply_ack.json", "reply_error.json", "reply_event_stream.json", "status.json"} {
		f.Add([]byte(fixture(f, name)))
	}
	for _, s := range []string{
		`{"action_result":{"output":"x"}}`, `{"action_result":{"output":{"events":[null,{},5]},"message":[{"type":"text","text":"a"},[]]}}`,
		`{"error":"x","ack":null,"body":{"ack":{"action_id":"a"}}}`, `{"body":{"body":{"error":{"code":"c"}}}}`, `{"action_result":{"output":{"events":[{"terminal":tru`,
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		type decoded struct {
			Reply  *Reply
			Frames []Frame
			Failed bool
		}
		decode := func(small bool) (d decoded) {
			into := ResultDecoding{OnFrame: func(i int, f Frame) error {
				if i != len(d.Frames) {
					t.Errorf("frame %d came as number %d", i, len(d.Frames))
				}
				d.Frames = append(d.Frames, f)
				return nil
			}}
			var err error
			if small {
				d.Reply, err = DecodeReply(iotest.OneByteReader(bytes.NewReader(data)), into)
			} else {
				d.Reply, err = DecodeReply(bytes.NewReader(data), into)
			}
			d.Failed = err != nil
			return d
		}
		got := decode(false)
		if diff := cmp.Diff(got, decode(true)); diff != "" {
			t.Fatalf("byte by byte it reads otherwise: -whole +bytes\n%s", diff)
		}
		v, ok := parseRef(data)
		if !ok || v.twice() || got.Failed {
			return
		}
		m, err := refObject(data)
		if err != nil {
			t.Fatalf("%s is no object and is read as %+v", data, got.Reply)
		}
		want := Reply{}
		if inner, err := refObject(m["body"]); err == nil {
			want.Enveloped = true
			if len(m) > 1 || inner["body"] != nil {
				return // which of two bodies counts is a matter of their order
			}
			m = inner
		}
		if got.Reply.Enveloped != want.Enveloped {
			t.Fatalf("an envelope: %v", got.Reply.Enveloped)
		}
		if e := refError(m["error"]); !cmp.Equal(e, got.Reply.Error, byMeaning) {
			t.Errorf("error %+v, want %+v", got.Reply.Error, e)
		}
		if a, err := refObject(m["ack"]); err == nil {
			ack := &Ack{ActionID: refString(a["action_id"]), Status: refString(a["status"]), RetryAfter: refUint(a["retry_after_ms"])}
			if diff := cmp.Diff(ack, got.Reply.Ack); diff != "" {
				t.Errorf("ack: -reference +got\n%s", diff)
			}
		}
		r, err := refObject(m["action_result"])
		if (err == nil) != (got.Reply.Result != nil) {
			t.Fatalf("there is a result: %v", err == nil)
		}
		if err == nil {
			refResult(t, r, got.Reply.Result, got.Frames)
		}
	})
}

func refResult(t *testing.T, r map[string]json.RawMessage, got *ActionResult, frames []Frame) {
	t.Helper()
	if got.ActionID != refString(r["action_id"]) || got.Status != refString(r["status"]) || !bytes.Equal(got.Usage, r["usage"]) || !bytes.Equal(got.Receipt, r["receipt"]) {
		t.Errorf("the result is %+v", got)
	}
	if e := refError(r["error"]); !cmp.Equal(e, got.Error, byMeaning) {
		t.Errorf("the result's error is %+v, want %+v", got.Error, e)
	}
	var texts []string
	var parts []json.RawMessage
	_ = json.Unmarshal(r["message"], &parts)
	for _, p := range parts {
		if m, err := refObject(p); err == nil && refString(m["type"]) == "text" && refString(m["text"]) != "" {
			texts = append(texts, refString(m["text"]))
		}
	}
	if diff := cmp.Diff(texts, got.Texts); diff != "" {
		t.Errorf("texts: -reference +got\n%s", diff)
	}
	out, err := refObject(r["output"])
	if err != nil {
		if scalar := r["output"]; len(scalar) > 0 && string(scalar) != "null" && !bytes.Equal(got.Output.Scalar, scalar) {
			t.Errorf("the output is %s, want %s", got.Output.Scalar, scalar)
		}
		return
	}
	var events []json.RawMessage
	isArray := len(out["events"]) > 0 && out["events"][0] == '['
	if isArray {
		_ = json.Unmarshal(out["events"], &events)
	}
	if got.Output.HasEvents != isArray || got.Output.Events != len(events) || len(frames) != len(events) {
		t.Fatalf("%d events and %d frames, want %d", got.Output.Events, len(frames), len(events))
	}
	for i, e := range events {
		want := refFrame(e)
		if want == nil {
			want = new(Frame)
		}
		want.Raw = ""
		if diff := cmp.Diff(*want, frames[i]); diff != "" {
			t.Errorf("frame %d: -reference +got\n%s", i, diff)
		}
	}
	if !cmp.Equal(got.Output.Terminal, refBool(out["terminal"])) || !cmp.Equal(got.Output.Truncated, refBool(out["truncated"])) || got.Output.Text != refString(out["text"]) {
		t.Errorf("the output is %+v", got.Output)
	}
}

// FuzzDecodeError: whatever a body holds, no four bytes of it reach the text
// of the error, but for a code that has the form of one.
func FuzzDecodeError(f *testing.F) {
	for _, c := range [][2]string{
		{"application/json", fixture(f, "reply_error.json")}, {"application/json", `{"error":{"code":"connector_catalog.disabled"}}`},
		{"text/html", "<html>canary</html>"}, {"text/plain", "canary"}, {"", ""}, {"application/json", `["canary"]`}, {"application/json", `{"error":{"code":"the canary"}}`},
		{"text/plain", "HTTP 502 with plain text"}, {"application/json", `{"error":{"code":"502"}}`},
	} {
		f.Add(c[0], []byte(c[1]))
	}
	f.Fuzz(func(t *testing.T, contentType string, body []byte) {
		proto, form := DecodeError(contentType, body)
		if (proto != nil) != (form == FormEnvelope || form == FormPlain) || proto != nil && proto.Code == "" {
			t.Fatalf("form %s with %+v", form, proto)
		}
		for _, e := range []*RemoteError{
			{Status: 502, Form: form, ContentType: "application/json", Proto: proto},
			{Status: 200, Form: form, ContentType: "application/json", Proto: proto, NotStream: true},
		} {
			text := e.Error()
			// What is said without any body is not the body's.
			own := (&RemoteError{Status: e.Status, Form: form, ContentType: e.ContentType, NotStream: e.NotStream}).Error() +
				"\nHTTP 502, \nHTTP 502 with an error code that is none"
			if proto != nil && IsCode(proto.Code) {
				text = strings.Replace(text, ", "+proto.Code, ", ", 1)
			}
			for i := 0; i+4 <= len(body); i++ {
				if piece := string(body[i : i+4]); strings.Contains(text, piece) && !strings.Contains(own, piece) {
					t.Fatalf("%q of the body is in %q", piece, text)
				}
			}
			if !utf8.ValidString(text) || strings.ContainsAny(text, "\n\r\x1b\x00") {
				t.Fatalf("the text is %q", text)
			}
		}
		_ = proto.RetryAfter()
		if proto.RetryAfter() < 0 {
			t.Fatalf("a wait of %s", proto.RetryAfter())
		}
	})
}
