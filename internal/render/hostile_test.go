package render

import (
	"bytes"
	"reflect"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// hostile reads the strings that nobody should have to see raw.
func hostile(t *testing.T) []string {
	t.Helper()
	var all []string
	for _, h := range aiptest.Hostile(t, false) {
		all = append(all, h.Decoded)
	}
	return all
}

// fill puts s into every field of v that can hold a string, so that a field
// which is added later is covered too.
func fill(v reflect.Value, s string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(s)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(4)
	case reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), s)
	case reflect.Slice:
		if v.Type() == reflect.TypeFor[jsontext.Value]() {
			quoted, _ := json.Marshal(map[string]string{s: s})
			v.SetBytes(quoted)
			return
		}
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range v.Len() {
			fill(v.Index(i), s)
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), s)
			}
		}
	}
}

func filled[T any](s string) T {
	var v T
	fill(reflect.ValueOf(&v).Elem(), s)
	return v
}

// everything shows one of each thing there is, with s in every field, and
// gives the text of its choice 0.
func everything(g *rig, s string) {
	g.ok(g.r.Identity(filled[record.Identity](s)))
	g.ok(g.r.State(filled[record.State](s)))
	g.r.Tick(g.clock)
	g.ok(g.r.Event(filled[record.Event](s)))
	g.ok(g.r.Warning(filled[record.Warning](s)))
	g.ok(g.r.Gap(filled[record.Gap](s)))
	item := filled[transcript.Item](s)
	item.Kind = "function_call"
	lone := filled[transcript.Item](s)
	lone.Kind, lone.CallID, lone.Open = "function_call", "other"+s, true
	started, ended := filled[transcript.Tool](s), filled[transcript.Tool](s)
	started.Status, ended.Status = transcript.ToolRunning, transcript.ToolFailed
	text := filled[transcript.Text](s)
	text.Item.Choice = 0
	for i, op := range []transcript.Op{
		text,
		filled[transcript.TextDone](s),
		filled[transcript.FinalText](s),
		filled[transcript.Thought](s),
		item,
		lone,
		started,
		ended,
		filled[transcript.Tool]("another " + s),
		filled[transcript.Finish](s),
		filled[transcript.Usage](s),
		filled[transcript.ProviderError](s),
		filled[transcript.Hermes](s),
		filled[transcript.Response](s),
		filled[transcript.Session](s),
		filled[transcript.Named](s),
		transcript.Done{},
		filled[transcript.Closed](s),
		filled[transcript.Approval](s),
		filled[transcript.Note](s),
	} {
		c := filled[record.Chunk](s)
		c.Sequence = uint64(i)
		g.ok(g.r.Deliver(record.Delivery{Chunk: c, Ops: []transcript.Op{op}}))
		g.r.Tick(g.clock)
	}
	g.wait(2 * time.Minute)
	g.r.Tick(g.clock)
	st := filled[aip.ActionStatus](s)
	g.ok(g.r.Status(&st))
	g.ok(g.r.Line(sanitize.Line(s)))
	g.ok(g.r.Fields(Field{sanitize.Block(s), sanitize.Block(s)}))
	g.r.Note(sanitize.Block(s))
	e := filled[fault.Error](s)
	g.r.Error(&e)
	e.Message = ""
	g.r.Error(&e)
	o := filled[verdict.Outcome](s)
	g.ok(g.r.Outcome(&o))
	last := newRigOf(g)
	o.Verdict = fault.Cancelled.String()
	last.ok(last.r.CancelOutcome(&o))
	g.out.Write(last.out.Bytes())
	g.err.Write(last.err.Bytes())
}

// newRigOf is a second run with the options of the first.
func newRigOf(g *rig) *rig {
	o := g.r.opts
	o.Stdout, o.Stderr = nil, nil
	return newRig(g.t, o)
}

var sgr = regexp.MustCompile(`\x1b\[[0-9]+m`)

func TestNothingHostileIsPrintedInText(t *testing.T) {
	for name, o := range map[string]Options{
		"in a log":                {Verbose: true, ShowLabels: true, ShowProviderErrors: true},
		"in a log, less":          {},
		"in a log, quiet":         {Quiet: true},
		"on a terminal":           {StdoutTTY: true, StderrTTY: true, Verbose: true, Color: ColorNever},
		"on a coloured one":       {StdoutTTY: true, StderrTTY: true, Verbose: true, Color: ColorAlways},
		"stderr on a terminal":    {StderrTTY: true, Color: ColorNever},
		"on a narrow terminal":    {StdoutTTY: true, StderrTTY: true, Color: ColorNever, Width: func() int { return 7 }},
		"in the log of a CI":      {StdoutTTY: true, StderrTTY: true, Color: ColorNever, Env: environment("CI", "true")},
		"on a terminal, quiet":    {StdoutTTY: true, StderrTTY: true, Quiet: true, Color: ColorNever},
		"on a terminal, dumb":     {StdoutTTY: true, StderrTTY: true, Env: environment("TERM", "dumb")},
		"on a terminal, NO_COLOR": {StdoutTTY: true, StderrTTY: true, Env: environment("NO_COLOR", "1")},
	} {
		t.Run(name, func(t *testing.T) {
			lines := func(s string) (out, err string) {
				g := newRig(t, o)
				everything(g, s)
				return g.out.String(), g.err.String()
			}
			_, plainErr := lines("x")
			for _, s := range hostile(t) {
				out, err := lines(s)
				if o.Color == ColorAlways {
					err = sgr.ReplaceAllString(err, "")
				}
				if o.withDefaults().animated() {
					err = strings.ReplaceAll(err, "\r", "")
				}
				for stream, got := range map[string]string{"stdout": out, "stderr": err} {
					// The text that passes unchanged is the text that is safe.
					if safe := sanitize.Block(got).String(); safe != got {
						t.Errorf("%q shows on %s raw: %q", s, stream, got)
					}
				}
				if strings.Contains(err, "\t") {
					t.Errorf("%q brings a tab to stderr: %q", s, err)
				}
				// A field cannot begin a line of its own. Text and thoughts
				// may have several lines; each of the latter is marked.
				got, want := strings.Count(err, "\n"), strings.Count(plainErr, "\n")
				if o.Verbose || o.StderrTTY && !o.Quiet {
					got -= strings.Count(s, "\n")
				}
				if got != want && o.Width == nil {
					t.Errorf("%q makes %d lines on stderr, not %d: %q", s, got, want, err)
				}
			}
		})
	}
}

// A log of records is safe to look at, and still says exactly what was sent.
func TestNothingHostileIsRawInJSON(t *testing.T) {
	for _, format := range []Format{JSON, JSONL} {
		t.Run(format.String(), func(t *testing.T) {
			for _, s := range hostile(t) {
				g := newRig(t, Options{Format: format, Verbose: true, IncludeRaw: true, Color: ColorAlways, StdoutTTY: true})
				everything(g, s)
				for stream, got := range map[string]string{"stdout": g.out.String(), "stderr": g.err.String()} {
					if safe := sanitize.Block(got).String(); safe != got || strings.ContainsAny(got, "\t\u200e\u200f") {
						t.Errorf("%q is raw on %s: %q", s, stream, got)
					}
					if got == "" {
						t.Errorf("%q: %s is empty", s, stream)
					}
					for line := range strings.Lines(got) {
						var m map[string]any
						if err := json.Unmarshal([]byte(line), &m, jsontext.AllowDuplicateNames(true)); err != nil {
							t.Errorf("%q: a line of %s is no object: %v: %q", s, stream, err, line)
						}
					}
				}
			}
		})
	}
}

// back decodes the only record of a type on stdout.
func back[T any](t *testing.T, out []byte, typ string) T {
	t.Helper()
	var found []T
	for line := range bytes.Lines(out) {
		var head record.Head
		if err := json.Unmarshal(line, &head); err != nil {
			t.Fatal(err)
		}
		if head.Type == typ {
			var v T
			if err := json.Unmarshal(line, &v); err != nil {
				t.Fatal(err)
			}
			found = append(found, v)
		}
	}
	if len(found) != 1 {
		t.Fatalf("%d records of type %s", len(found), typ)
	}
	return found[0]
}

// roundTrip checks that what stands in a record of JSON Lines decodes to what
// the sink was given.
func roundTrip[T any](t *testing.T, typ string, given T, out []byte) {
	t.Helper()
	got := back[T](t, out, typ)
	if diff := cmp.Diff(given, got, asValues); diff != "" {
		t.Errorf("%s (-given +got):\n%s", typ, diff)
	}
}

// asValues compares JSON by what it says: an escape is the character.
var asValues = cmp.Transformer("value", func(v jsontext.Value) (out any) {
	if len(v) == 0 {
		return nil
	}
	if err := json.Unmarshal(v, &out); err != nil {
		return err.Error()
	}
	return out
})

func withHead[T any](v T, typ string) T {
	reflect.ValueOf(&v).Elem().FieldByName("Head").Set(reflect.ValueOf(record.NewHead(typ)))
	return v
}

func TestRecordsDecodeToWhatWasGiven(t *testing.T) {
	for _, s := range append(hostile(t), "", "plain") {
		g := newRig(t, Options{Format: JSONL, IncludeRaw: true})
		identity := withHead(filled[record.Identity](s), record.TypeIdentity)
		state := withHead(filled[record.State](s), record.TypeState)
		event := withHead(filled[record.Event](s), record.TypeEvent)
		warning := withHead(filled[record.Warning](s), record.TypeWarning)
		gap := withHead(filled[record.Gap](s), record.TypeGap)
		chunk := withHead(filled[record.Chunk](s), record.TypeChunk)
		item := withHead(filled[record.Item](s), record.TypeItem)
		item.Sequence = chunk.Sequence
		outcome := filled[verdict.Outcome](s)
		outcome.Text, outcome.Items = "", nil
		g.ok(g.r.Identity(identity))
		g.ok(g.r.State(state))
		g.ok(g.r.Event(event))
		g.ok(g.r.Warning(warning))
		g.ok(g.r.Gap(gap))
		g.ok(g.r.Deliver(record.Delivery{Chunk: chunk, Ops: []transcript.Op{transcript.Item{
			ItemID: item.ItemID, OutputIndex: item.OutputIndex, Kind: item.Kind, CallID: item.CallID,
			Name: item.Name, Status: item.Status, Open: item.Open, Payload: item.Item,
		}}}))
		g.ok(g.r.Outcome(&outcome))
		out := g.out.Bytes()
		roundTrip(t, record.TypeIdentity, identity, out)
		roundTrip(t, record.TypeState, state, out)
		roundTrip(t, record.TypeEvent, event, out)
		roundTrip(t, record.TypeWarning, warning, out)
		roundTrip(t, record.TypeGap, gap, out)
		roundTrip(t, record.TypeChunk, chunk, out)
		roundTrip(t, record.TypeItem, item, out)
		last := bytes.Split(bytes.TrimSpace(out), []byte("\n"))
		var got verdict.Outcome
		if err := json.Unmarshal(last[len(last)-1], &got); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(outcome, got, asValues); diff != "" {
			t.Errorf("outcome (-given +got):\n%s", diff)
		}
	}
}
