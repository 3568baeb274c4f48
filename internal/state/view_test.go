package state

import (
	"bytes"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func cmpViews(a, b *View) string {
	return cmp.Diff(a.Actions(), b.Actions(), cmp.Exporter(func(t reflect.Type) bool { return t == reflect.TypeFor[Action]() }))
}

func TestSoundFileSaysWhatWasWritten(t *testing.T) {
	v, rep := load(t, "testdata/sound.jsonl")
	if !rep.Sound() || rep.Torn || rep.Empty || rep.Lines != 14 || rep.Records != 14 || len(rep.Warnings()) != 0 {
		t.Errorf("report %+v", rep)
	}
	if got := ids(v); !slices.Equal(got, []string{actSettled, actPending, actNotSent}) {
		t.Fatalf("actions %v", got)
	}
	yes := true
	a := v.Action(actSettled)
	want := &Action{
		ID: actSettled,
		Intent: &Intent{
			CapabilityID: "cap:hermes_agent:north:responses_stream", Endpoint: "north", Operation: "responses_stream",
			IdempotencyKey: "5f0c9a3e7b1d42688e5a0b7c6d3f1a29", Mode: "streaming", TimeoutMS: num(120000),
			URL: "http://127.0.0.1:8642/edge", Principal: "tok:0123456789abcdef", Tenant: "acme", ContextPrincipal: "agent:night",
			InputHash: "sha256:" + strings.Repeat("a", 64), SessionID: "night-shift", SessionKey: "ns-1", Conversation: "weekly",
			PreviousResponseID: "resp_0", Store: &yes, MaxEvents: num(20000), RequiredTools: []string{"read_file", "terminal"}, EffectChecks: 1,
		},
		IntentAt:    time.Date(2030, 1, 15, 9, 30, 0, 1, time.UTC),
		Submitted:   true,
		ResponseIDs: []string{"resp_1"},
		Responses:   []Response{{ResponseID: "resp_1", Endpoint: "north"}},
		Cursors: []Cursor{{URL: "http://127.0.0.1:8642/edge", Principal: "tok:0123456789abcdef", Route: "events",
			Filter: "include_chunks=true", Cursor: "aev_cursor_43_7", LastSequence: num(7)}},
		Settled: &Settled{Verdict: "accepted", AIPStatus: "completed", FinishReason: "completed", Closed: true,
			Checks: map[string]string{"aip_status": "pass", "effect_check": "pass", "finish_reason": "pass"}},
		SettledAt: time.Date(2030, 1, 15, 9, 30, 3, 0, time.UTC),
	}
	want.Last = Record{V: 1, ID: "00000000000000000000000000000006", Type: TypeSettled, At: want.SettledAt, ActionID: actSettled, Settled: want.Settled}
	want.firstAt = want.IntentAt
	if d := cmp.Diff(want, a, cmp.AllowUnexported(Action{})); d != "" {
		t.Errorf("settled action (-want +got):\n%s", d)
	}

	p := v.Action(actPending)
	if p.Last.Type != TypeDecision || p.NotSent != nil || !p.Submitted || !slices.Equal(p.ApprovalIDs, []string{"appr_0198f2b000007000800000000000000a"}) {
		t.Errorf("pending action %+v", p)
	}
	if d := cmp.Diff([]Decision{{ApprovalID: "appr_0198f2b000007000800000000000000a", DecisionID: "dec_1", Decision: "approve"}}, p.Decisions); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&Settled{Verdict: "pending", ExitCode: 8, Checks: map[string]string{"aip_status": "missing", "terminal": "missing"},
		AIPStatus: "pending_approval", ErrorCode: "policy.approval_required", ReplayOf: "act_other", Missing: 2, UncertainOutcome: true}, p.Settled); d != "" {
		t.Error(d)
	}

	n := v.Action(actNotSent)
	if d := cmp.Diff(&NotSent{Class: 3, Code: "connect.refused", Reason: "connection refused", InputHash: "sha256:" + strings.Repeat("c", 64)}, n.NotSent); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(&Probe{ParentActionID: actSettled, Purpose: "confirm_delete"}, n.Probe); d != "" || n.Submitted {
		t.Error(d, n.Submitted)
	}
	if v.Action("act_unknown") != nil {
		t.Error("an unknown action is not nil")
	}
}

// at makes a record of an action at a second after t0.
func at(id string, sec int, r Record) *Record {
	r.V, r.ID, r.At, r.ActionID = Version, id, t0.Add(time.Duration(sec)*time.Second), "act_1"
	switch {
	case r.Intent != nil:
		r.Type = TypeIntent
	case r.Submitted != nil:
		r.Type = TypeSubmitted
	case r.NotSent != nil:
		r.Type = TypeNotSent
	case r.Cursor != nil:
		r.Type = TypeCursor
	case r.Response != nil:
		r.Type = TypeResponse
	case r.Settled != nil:
		r.Type = TypeSettled
	}
	return &r
}

func intent(key string) Record   { return Record{Intent: &Intent{IdempotencyKey: key}} }
func notSent(hash string) Record { return Record{NotSent: &NotSent{InputHash: hash}} }
func settled(verdict string, missing int) Record {
	return Record{Settled: &Settled{Verdict: verdict, Missing: missing}}
}
func cursorAt(cursor string, last *uint64) Record {
	return Record{Cursor: &Cursor{URL: "u", Principal: "p", Route: "r", Cursor: cursor, LastSequence: last}}
}

func TestWhatOfSeveralRecordsCounts(t *testing.T) {
	var (
		verdict  = func(a *Action) string { return a.Settled.Verdict }
		key      = func(a *Action) string { return a.Intent.IdempotencyKey }
		furthest = func(a *Action) string {
			c, _ := a.Cursor("u", "p", "r", "")
			return c.Cursor
		}
		unsent = func(a *Action) string {
			if a.NotSent == nil {
				return "may have been sent"
			}
			return a.NotSent.InputHash
		}
		last = func(a *Action) string { return a.Last.ID }
	)
	for _, tt := range []struct {
		rule string
		recs []*Record
		get  func(*Action) string
		want string
	}{
		{"settled: fewer missing checks win over later", []*Record{at("1", 1, settled("accepted", 0)), at("2", 2, settled("unknown", 3))}, verdict, "accepted"},
		{"settled: fewer missing checks win over conflict", []*Record{at("1", 1, settled("accepted", 0)), at("2", 2, settled("conflict", 1))}, verdict, "accepted"},
		{"settled: conflict wins over a later other", []*Record{at("1", 1, settled("conflict", 0)), at("2", 2, settled("accepted", 0))}, verdict, "conflict"},
		{"settled: conflict wins over an earlier other", []*Record{at("1", 1, settled("accepted", 0)), at("2", 2, settled("conflict", 0))}, verdict, "conflict"},
		{"settled: the later of equals wins", []*Record{at("1", 1, settled("unknown", 1)), at("2", 2, settled("failed", 1))}, verdict, "failed"},
		{"settled: the later of two conflicts wins", []*Record{at("1", 1, Record{Settled: &Settled{Verdict: "conflict", ErrorCode: "a"}}), at("2", 2, Record{Settled: &Settled{Verdict: "conflict", ErrorCode: "b"}})},
			func(a *Action) string { return a.Settled.ErrorCode }, "b"},

		{"intent: the first", []*Record{at("1", 1, intent("first")), at("2", 2, intent("second"))}, key, "first"},
		{"intent: one that was not sent gives way to the next", []*Record{at("1", 1, intent("first")), at("2", 2, notSent("h")), at("3", 3, intent("second"))}, key, "second"},
		{"intent: one that was not sent stays where no other follows", []*Record{at("1", 1, intent("first")), at("2", 2, notSent("h"))}, key, "first"},

		{"cursor: the higher last sequence, not the later", []*Record{at("1", 2, cursorAt("aev_cursor_9_9", num(3))), at("2", 1, cursorAt("aev_cursor_8_8", num(4)))}, furthest, "aev_cursor_8_8"},
		{"cursor: any last sequence before none", []*Record{at("1", 1, cursorAt("aev_cursor_1_0", num(0))), at("2", 2, cursorAt("aev_cursor_9_none", nil))}, furthest, "aev_cursor_1_0"},
		{"cursor: sequences beyond 2^53 are told apart", []*Record{at("1", 2, cursorAt("a", num(1<<63))), at("2", 1, cursorAt("b", num(1<<63+1)))}, furthest, "b"},
		{"cursor: then the higher offset, as a number", []*Record{at("1", 2, cursorAt("aev_cursor_9_1", num(3))), at("2", 1, cursorAt("aev_cursor_10_1", num(3)))}, furthest, "aev_cursor_10_1"},
		{"cursor: then the higher chunk sequence", []*Record{at("1", 2, cursorAt("aev_cursor_9_9", num(3))), at("2", 1, cursorAt("aev_cursor_9_10", num(3)))}, furthest, "aev_cursor_9_10"},
		{"cursor: none is below sequence 0", []*Record{at("1", 2, cursorAt("aev_cursor_9_none", num(3))), at("2", 1, cursorAt("aev_cursor_9_0", num(3)))}, furthest, "aev_cursor_9_0"},
		{"cursor: evt_cursor is an offset without a sequence", []*Record{at("1", 2, cursorAt("evt_cursor_9", num(3))), at("2", 1, cursorAt("aev_cursor_9_0", num(3)))}, furthest, "aev_cursor_9_0"},
		{"cursor: numbers before no numbers", []*Record{at("1", 1, cursorAt("aev_cursor_1_1", num(3))), at("2", 2, cursorAt("opaque", num(3)))}, furthest, "aev_cursor_1_1"},
		{"cursor: the later where nothing else tells", []*Record{at("1", 1, cursorAt("opaque-1", num(3))), at("2", 2, cursorAt("opaque-2", num(3)))}, furthest, "opaque-2"},

		{"not_sent: the last word", []*Record{at("1", 1, intent("k")), at("2", 2, notSent("h"))}, unsent, "h"},
		{"not_sent: not after a submitted that is later", []*Record{at("1", 1, intent("k")), at("2", 2, notSent("h")), at("3", 3, Record{Submitted: &Submitted{}})}, unsent, "may have been sent"},
		{"not_sent: after a submitted that is earlier", []*Record{at("1", 1, intent("k")), at("2", 2, Record{Submitted: &Submitted{}}), at("3", 3, notSent("h"))}, unsent, "h"},
		{"not_sent: not for a later intent", []*Record{at("1", 1, intent("k")), at("2", 2, notSent("h")), at("3", 3, intent("k"))}, unsent, "may have been sent"},
		{"not_sent: not for two intents, though a clock was set back", []*Record{at("1", 10, intent("k")), at("2", 11, notSent("h")), at("3", 1, intent("k")), at("4", 2, Record{Submitted: &Submitted{}})}, unsent, "may have been sent"},
		{"not_sent: one for each intent", []*Record{at("1", 1, intent("k")), at("2", 2, notSent("h")), at("3", 3, intent("k")), at("4", 4, notSent("h2"))}, unsent, "h2"},
		{"not_sent: at the same instant as a submitted it does not count", []*Record{at("1", 1, intent("k")), at("2", 1, notSent("h")), at("3", 1, Record{Submitted: &Submitted{}})}, unsent, "may have been sent"},

		{"last: by time", []*Record{at("1", 5, settled("accepted", 0)), at("2", 1, intent("k"))}, last, "1"},
		{"last: at one instant by the life of an action", []*Record{at("1", 1, settled("accepted", 0)), at("2", 1, intent("k"))}, last, "1"},
		{"responses: each once, with the endpoint that is known", []*Record{at("1", 1, Record{Response: &Response{ResponseID: "resp_1"}}), at("2", 2, Record{Response: &Response{ResponseID: "resp_1", Endpoint: "north"}}), at("3", 3, Record{Response: &Response{ResponseID: "resp_0", Endpoint: "south"}})},
			func(a *Action) string { return strings.Join(a.ResponseIDs, " ") + " " + a.Responses[0].Endpoint }, "resp_1 resp_0 north"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			for _, recs := range [][]*Record{tt.recs, backwards(tt.recs)} {
				v, n := newView(recs)
				if n != len(recs) {
					t.Fatalf("%d records count, want %d", n, len(recs))
				}
				if got := tt.get(v.Action("act_1")); got != tt.want {
					t.Errorf("got %q, want %q", got, tt.want)
				}
			}
		})
	}
}

func backwards(recs []*Record) []*Record {
	out := slices.Clone(recs)
	slices.Reverse(out)
	return out
}

func TestCursorIsOfExactlyOneBinding(t *testing.T) {
	c := Cursor{URL: "http://h/a", Principal: "tok:1", Route: "events", Filter: "include_chunks=true", Cursor: "aev_cursor_1_1"}
	v, _ := newView([]*Record{at("1", 1, Record{Cursor: &c})})
	a := v.Action("act_1")
	if got, ok := a.Cursor(c.URL, c.Principal, c.Route, c.Filter); !ok || got.Cursor != c.Cursor {
		t.Errorf("its own binding: %v %v", got, ok)
	}
	for rule, b := range map[string][4]string{
		"another path prefix": {"http://h/b", c.Principal, c.Route, c.Filter},
		"another token":       {c.URL, "tok:2", c.Route, c.Filter},
		"another route":       {c.URL, c.Principal, "chunks", c.Filter},
		"another filter":      {c.URL, c.Principal, c.Route, ""},
	} {
		if got, ok := a.Cursor(b[0], b[1], b[2], b[3]); ok {
			t.Errorf("%s: got %v", rule, got)
		}
	}
	if _, ok := v.Action("act_2").Cursor(c.URL, c.Principal, c.Route, c.Filter); ok {
		t.Error("another action has the cursor")
	}
}

func TestActionsStandInTheOrderOfTheirIntents(t *testing.T) {
	mk := func(id, action string, sec int, r Record) *Record {
		p := at(id, sec, r)
		p.ActionID = action
		return p
	}
	v, _ := newView([]*Record{
		mk("1", "act_c", 3, intent("")), mk("2", "act_a", 9, intent("")), mk("3", "act_a", 1, cursorAt("c", nil)),
		mk("4", "act_followed", 5, cursorAt("c", nil)), mk("5", "act_b", 3, intent("")),
	})
	if got, want := ids(v), []string{"act_b", "act_c", "act_followed", "act_a"}; !slices.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}

// The order of lines carries no meaning, so neither does the order of two
// files that were put together, nor a line that came along twice.
func TestReadingIsFreeOfOrder(t *testing.T) {
	whole := sound(t)
	want, _ := load(t, "testdata/sound.jsonl")
	lines := bytes.SplitAfter(whole, []byte("\n"))
	lines = lines[:len(lines)-1]
	rng := rand.New(rand.NewPCG(38, 39))
	for range 200 {
		mixed := slices.Concat(lines, lines[:rng.IntN(len(lines))])
		rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
		got, rep := load(t, place(t, bytes.Join(mixed, nil)))
		if d := cmpViews(want, got); d != "" {
			t.Fatalf("(-want +got):\n%s", d)
		}
		if rep.Records != len(lines) || rep.Lines != len(mixed) {
			t.Fatalf("report %+v", rep)
		}
	}
}

// Times tie between processes and machines, and the fold must not care.
func TestTwoFilesGiveTheSameViewInEitherOrder(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	some := func(n int) []*Record {
		var out []*Record
		for range n {
			var r Record
			switch rng.IntN(6) {
			case 0:
				r = intent([]string{"a", "b"}[rng.IntN(2)])
			case 1:
				r = notSent([]string{"a", "b"}[rng.IntN(2)])
			case 2:
				r = Record{Submitted: &Submitted{Mode: "sync"}}
			case 3:
				r = cursorAt([]string{"aev_cursor_1_1", "aev_cursor_2_none", "x", "y"}[rng.IntN(4)], []*uint64{nil, num(1), num(2)}[rng.IntN(3)])
			case 4:
				r = settled([]string{"accepted", "conflict", "unknown"}[rng.IntN(3)], rng.IntN(2))
			case 5:
				r = Record{Response: &Response{ResponseID: []string{"resp_1", "resp_2"}[rng.IntN(2)], Endpoint: []string{"", "north"}[rng.IntN(2)]}}
			}
			out = append(out, at(newRecordID(), rng.IntN(3), r))
		}
		return out
	}
	for range 2000 {
		a, b := some(1+rng.IntN(6)), some(1+rng.IntN(6))
		one, _ := newView(slices.Concat(a, b))
		two, _ := newView(slices.Concat(b, a))
		if d := cmpViews(one, two); d != "" {
			t.Fatal(d)
		}
	}
}
