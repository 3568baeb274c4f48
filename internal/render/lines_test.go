package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// types lists the types of the records in their order.
func types(t *testing.T, out []byte) string {
	t.Helper()
	var all []string
	for line := range bytes.Lines(out) {
		var h record.Head
		if err := json.Unmarshal(line, &h); err != nil {
			t.Fatalf("%v: %q", err, line)
		}
		if h.V != record.Version {
			t.Errorf("v is %d: %q", h.V, line)
		}
		all = append(all, h.Type)
	}
	return strings.Join(all, " ")
}

func TestLinesKeepTheirOrder(t *testing.T) {
	for name, tt := range map[string]struct {
		run  func(g *rig)
		want string
	}{
		"a chunk comes before what it means": {func(g *rig) {
			g.identity()
			g.deliver(0, transcript.Text{Text: "a"}, transcript.Tool{CallID: "c", Status: transcript.ToolRunning}, transcript.Item{ItemID: "i", Open: true})
			g.outcome(nil)
		}, "identity chunk text tool item outcome"},
		"what comes before the identity waits for it": {func(g *rig) {
			g.ok(g.r.Warning(record.Warning{Code: "early"}))
			g.identity()
			g.outcome(nil)
		}, "identity warning outcome"},
		"without an identity it waits for the outcome": {func(g *rig) {
			g.ok(g.r.Warning(record.Warning{Code: "early"}))
			g.outcome(nil)
		}, "warning outcome"},
		"without an outcome it waits for the end": {func(g *rig) {
			g.ok(g.r.Event(record.Event{ID: "e"}))
			g.ok(g.r.Close())
		}, "event"},
		"nothing follows the outcome": {func(g *rig) {
			g.identity()
			g.outcome(nil)
			g.outcome(nil)
			g.state(record.StateSettling)
			g.deliver(1, transcript.Text{Text: "late"})
			g.ok(g.r.Close())
		}, "identity outcome"},
		"a repeated update of a tool is no change": {func(g *rig) {
			g.identity()
			g.deliver(0, transcript.Tool{CallID: "c", Name: "t", Status: transcript.ToolRunning})
			g.deliver(1, transcript.Tool{CallID: "c", Name: "t", Status: transcript.ToolRunning})
			g.deliver(2, transcript.Tool{CallID: "c", Name: "t", Status: transcript.ToolCompleted})
			g.deliver(3, transcript.Tool{CallID: "c", Name: "t", Status: transcript.ToolRunning})
			g.outcome(nil)
		}, "identity chunk tool chunk chunk tool chunk outcome"},
		"a half character alone is told at the end": {func(g *rig) {
			g.identity()
			g.deliver(0, transcript.Text{Text: "\xed\xa0\xbd"})
			g.outcome(nil)
		}, "identity chunk text outcome"},
		"a final text is told where no delta was": {func(g *rig) {
			g.identity()
			g.deliver(0, transcript.FinalText{Text: "a"}, transcript.FinalText{Text: "a"})
			g.outcome(nil)
		}, "identity chunk text outcome"},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{Format: JSONL})
			tt.run(g)
			if got := types(t, g.out.Bytes()); got != tt.want {
				t.Errorf("records %q, want %q", got, tt.want)
			}
			if g.err.Len() > 0 {
				t.Errorf("stderr %q", g.err.String())
			}
		})
	}
}

func TestEachRecordIsOneWrite(t *testing.T) {
	w := &writes{}
	g := newRig(t, Options{Format: JSONL, Stdout: w})
	runTools(g)
	for _, s := range w.all {
		if strings.Count(s, "\n") != 1 || !strings.HasSuffix(s, "\n") {
			t.Errorf("a write is no line: %q", s)
		}
	}
	if len(w.all) != 23 {
		t.Errorf("%d writes, want 23", len(w.all))
	}
}

// Digits, escapes and names are the provider's. A reader that compares them
// with the stored result must find the same.
func TestValuesStayAsTheyCame(t *testing.T) {
	for name, tt := range map[string]struct{ given, want string }{
		"digits":                       {`[1.10,1e400,12345678901234567890,-0,0.1e-7]`, `[1.10,1e400,12345678901234567890,-0,0.1e-7]`},
		"names that occur twice":       {`{"a":1,"a":2}`, `{"a":1,"a":2}`},
		"an empty object":              {`{}`, `{}`},
		"an empty string":              {`""`, `""`},
		"null":                         {`null`, `null`},
		"half a character":             {`"\ud83d"`, `"\ud83d"`},
		"escapes that were not needed": {`"\u0061\/<>&"`, `"\u0061\/<>&"`},
		"space between":                {"{ \"a\" : [ 1 ,\n 2 ] }", `{"a":[1,2]}`},
		"what a terminal acts on":      {"\"\u009b\u2028\U000e0041\"", `"\u009b\u2028\udb40\udc41"`},
		"marks of direction":           {"\"\u200ea\u200f\"", `"\u200ea\u200f"`},
		"a byte that is no UTF-8":      {"\"\x9b31m\"", "\"\ufffd31m\""},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, Options{Format: JSONL})
			g.identity()
			g.ok(g.r.Deliver(record.Delivery{Chunk: record.Chunk{Data: jsontext.Value(tt.given)}}))
			want := `"data":` + tt.want + "}\n"
			if got := g.out.String(); !strings.HasSuffix(got, want) {
				t.Errorf("%q, want the end %q", got, want)
			}
		})
	}
}

func TestRawDataOnlyOnRequest(t *testing.T) {
	for _, include := range []bool{false, true} {
		g := newRig(t, Options{Format: JSONL, IncludeRaw: include})
		g.identity()
		g.play(escapes)
		if got := strings.Contains(g.out.String(), `"raw_data"`); got != include {
			t.Errorf("IncludeRaw %v: raw_data %v", include, got)
		}
	}
}

// The deltas of a recording come out of the records as they went in.
func TestTextRecordsAreTheDeltas(t *testing.T) {
	g := newRig(t, Options{Format: JSONL})
	g.identity()
	var want []string
	for _, c := range chunks(t, escapes) {
		d := delivery(c)
		for _, op := range d.Ops {
			if o, ok := op.(transcript.Text); ok {
				want = append(want, o.Text)
			}
		}
		g.ok(g.r.Deliver(d))
	}
	var got []string
	for line := range bytes.Lines(g.out.Bytes()) {
		var v record.Text
		if err := json.Unmarshal(line, &v); err != nil {
			t.Fatal(err)
		}
		if v.Type == record.TypeText {
			got = append(got, v.Text)
		}
	}
	if strings.Join(got, "|") != strings.Join(want, "|") || len(want) == 0 {
		t.Errorf("text %q, want %q", got, want)
	}
}

// A provider may nest its JSON as deep as a decoder goes; around it a record
// has no room, and the run still ends with its outcome.
func TestValuesTooDeepForARecordAreLeftOut(t *testing.T) {
	deep := jsontext.Value(strings.Repeat("[", 10000) + strings.Repeat("]", 10000))
	if !deep.IsValid() {
		t.Fatal("the value is not one that a decoder takes")
	}
	for _, format := range []Format{JSON, JSONL} {
		g := newRig(t, Options{Format: format})
		g.identity()
		g.deliver(0, transcript.Item{ItemID: "i", Kind: "function_call", Payload: deep})
		o := outcome(func(o *verdict.Outcome) {
			o.Usage = deep
			o.Items = []verdict.ItemText{{Kind: "function_call", Item: deep}}
		})
		g.ok(g.r.Outcome(o))
		if got := types(t, g.out.Bytes()); !strings.HasSuffix(got, "outcome") {
			t.Errorf("%v: records %q", format, got)
		}
		if len(o.Items[0].Item) == 0 || len(o.Usage) == 0 {
			t.Errorf("%v: the caller's outcome was changed", format)
		}
	}
}

func TestRecordThatIsNoJSONIsAnInternalError(t *testing.T) {
	g := newRig(t, Options{Format: JSON})
	if err := g.r.Record(func() {}); fault.ClassOf(err) != fault.Internal {
		t.Errorf("Record: %v", err)
	}
	if g.out.Len() > 0 {
		t.Errorf("stdout %q", g.out.String())
	}
}

// JSON on stdout is the document and nothing else, whatever happens before.
func TestDocumentStandsAlone(t *testing.T) {
	g := newRig(t, Options{Format: JSON, Verbose: true})
	runTrouble(g)
	if got := types(t, g.out.Bytes()); got != "outcome" {
		t.Errorf("records %q", got)
	}
	if g.err.Len() > 0 {
		t.Errorf("stderr %q", g.err.String())
	}
}

func TestSmallCommandsSpeakOneFormat(t *testing.T) {
	st := &aip.ActionStatus{ActionID: "act_1", State: aip.StateRunning}
	for format, want := range map[Format]string{
		Text:  "action  act_1\nstate   running\nline\n",
		JSON:  `{"v":1,"type":"status","action_id":"act_1","state":"running"}` + "\n" + `{"v":1}` + "\n",
		JSONL: `{"v":1,"type":"status","action_id":"act_1","state":"running"}` + "\n" + `{"v":1}` + "\n",
	} {
		g := newRig(t, Options{Format: format})
		g.ok(g.r.Status(st))
		g.ok(g.r.Line(plainText("line")))
		g.ok(g.r.Record(struct {
			V int `json:"v"`
		}{1}))
		if g.out.String() != want {
			t.Errorf("%v: %q, want %q", format, g.out.String(), want)
		}
	}
}
