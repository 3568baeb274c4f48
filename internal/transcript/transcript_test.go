package transcript

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// of applies one list of operations for each sequence from 0 upwards.
func of(ops ...[]Op) *Transcript {
	t := New()
	for seq, o := range ops {
		t.Apply(uint64(seq), o)
	}
	return t
}

func one(op Op) []Op { return []Op{op} }

func value(s string) jsontext.Value { return jsontext.Value(s) }

// TestTheOrderOfApplyingDoesNotMatter is the invariant of the package, for
// operations that nobody arranged: ends before starts, several answers for
// one call, ids that come and go.
func TestTheOrderOfApplyingDoesNotMatter(t *testing.T) {
	for seed := range uint64(300) {
		random := rand.New(rand.NewPCG(seed, 7))
		log := randomLog(random)
		want := New()
		for seq, ops := range log {
			want.Apply(uint64(seq), ops)
		}
		for range 4 {
			got := New()
			for _, seq := range random.Perm(len(log)) {
				got.Apply(uint64(seq), log[seq])
			}
			if a, b := want.Facts(), got.Facts(); !reflect.DeepEqual(a, b) {
				t.Fatalf("seed %d: -in order +mixed\n%s", seed, cmp.Diff(a, b))
			}
		}
	}
}

// randomLog makes a log out of few names, so that they meet often.
func randomLog(random *rand.Rand) [][]Op {
	pick := func(from ...string) string { return from[random.IntN(len(from))] }
	flag := func() *bool {
		b := random.IntN(2) == 0
		return &b
	}
	ref := func() ItemRef {
		return ItemRef{Choice: random.IntN(2), ItemID: pick("", "a", "b"), OutputIndex: random.IntN(2), ContentIndex: random.IntN(2)}
	}
	finals := random.IntN(3) == 0 // else there are deltas, and a final text is none
	makers := []func() Op{
		func() Op { return Finish{random.IntN(3), pick("", "stop", "length", "error")} },
		func() Op {
			return Tool{CallID: pick("", "c1", "c2"), Name: pick("", "t1", "t2"), Status: pick(ToolRunning, ToolRunning, ToolCompleted, ToolFailed)}
		},
		func() Op { return Usage{value(pick("1", "2", "3"))} },
		func() Op { return ProviderError{Type: pick("a", "b", "c")} },
		func() Op { return Hermes{Completed: flag(), Failed: flag(), ErrorCode: pick("x", "y")} },
		func() Op {
			return Response{Event: pick("response.created", "response.completed"), ID: pick("", "r1", "r2"), Status: pick("", "in_progress", "completed")}
		},
		func() Op { return Session{pick("s1", "s2")} },
		func() Op { return Named{pick("run.failed", "run.completed")} },
		func() Op { return Closed{pick("w1", "w2")} },
		func() Op {
			return Item{ItemID: pick("", "i1"), OutputIndex: random.IntN(2), Kind: pick("message", "function_call"), CallID: pick("", "c1"), Name: pick("", "n1", "n2"), Status: pick("", "in_progress", "completed"), Open: random.IntN(2) == 0, Payload: value(pick("", "1", "2"))}
		},
		func() Op { return Done{} },
		func() Op { return Note{} },
		func() Op { return Thought{"hm"} },
		func() Op { return Approval{} },
	}
	if finals {
		makers = append(makers, func() Op { return FinalText{ref(), pick("whole", "answer")} })
	} else {
		makers = append(makers,
			func() Op { return Text{ref(), pick("a", "b", "\xed\xa0\xbd", "\xed\xba\x80")} },
			func() Op { return TextDone{ref(), pick("a", "ab")} })
	}
	log := make([][]Op, 1+random.IntN(12))
	for i := range log {
		for range random.IntN(4) {
			log[i] = append(log[i], makers[random.IntN(len(makers))]())
		}
	}
	return log
}

func TestTools(t *testing.T) {
	start := func(id, name string) []Op { return one(Tool{CallID: id, Name: name, Status: ToolRunning}) }
	end := func(id, name, status string) []Op { return one(Tool{CallID: id, Name: name, Status: status}) }
	for _, tc := range []struct {
		rule string
		ops  [][]Op
		want []ToolFact
	}{
		{"a call that is still running", [][]Op{start("c", "t")}, []ToolFact{{"c", "t", ToolRunning, 0, 0}}},
		{"its end is paired by call id", [][]Op{start("c", "t"), start("d", "t"), end("c", "", ToolCompleted)},
			[]ToolFact{{"c", "t", ToolCompleted, 0, 2}, {"d", "t", ToolRunning, 1, 1}}},
		{"calls may overlap and end in any order", [][]Op{start("c", "t"), start("d", "u"), end("d", "u", ToolCompleted), end("c", "t", ToolFailed)},
			[]ToolFact{{"c", "t", ToolFailed, 0, 3}, {"d", "u", ToolCompleted, 1, 2}}},
		{"a start that is repeated changes nothing", [][]Op{start("c", "t"), start("c", "t"), end("c", "t", ToolCompleted), start("c", "t")},
			[]ToolFact{{"c", "t", ToolCompleted, 0, 3}}},
		{"an end without its start", [][]Op{end("c", "t", ToolCompleted)}, []ToolFact{{"c", "t", ToolCompleted, 0, 0}}},
		{"the name may come with the end", [][]Op{start("c", ""), end("c", "t", ToolCompleted)}, []ToolFact{{"c", "t", ToolCompleted, 0, 1}}},
		{"without ids an end belongs to the oldest running call of its name", [][]Op{start("", "t"), start("", "u"), start("", "t"), end("", "t", ToolFailed), end("", "t", ToolCompleted)},
			[]ToolFact{{"", "t", ToolFailed, 0, 3}, {"", "u", ToolRunning, 1, 1}, {"", "t", ToolCompleted, 2, 4}}},
		{"without ids calls of one name follow each other", [][]Op{start("", "t"), end("", "t", ToolCompleted), start("", "t"), end("", "t", ToolFailed)},
			[]ToolFact{{"", "t", ToolCompleted, 0, 1}, {"", "t", ToolFailed, 2, 3}}},
		{"an end without id never ends a call that has one", [][]Op{start("c", "t"), end("", "t", ToolCompleted)},
			[]ToolFact{{"c", "t", ToolRunning, 0, 0}, {"", "t", ToolCompleted, 1, 1}}},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, of(tc.ops...).Facts().Tools); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
	// The same pairing, when the end was read first.
	late := New()
	late.Apply(5, end("", "t", ToolCompleted))
	late.Apply(2, start("", "t"))
	if diff := cmp.Diff([]ToolFact{{"", "t", ToolCompleted, 2, 5}}, late.Facts().Tools); diff != "" {
		t.Errorf("end before start: -want +got\n%s", diff)
	}
}

func TestTexts(t *testing.T) {
	a, b := ItemRef{ItemID: "a"}, ItemRef{ItemID: "b", OutputIndex: 3}
	part := ItemRef{ItemID: "a", ContentIndex: 1}
	for _, tc := range []struct {
		rule   string
		ops    [][]Op
		want   []TextFact
		answer string
	}{
		{"items that interleave stay apart", [][]Op{one(Text{a, "one"}), one(Text{b, "two"}), one(Text{a, " more"})},
			[]TextFact{{Item: a, Text: "one more"}, {Item: b, Text: "two"}}, "one more\ntwo"},
		{"an item that began later may stand before", [][]Op{one(Text{b, "two"}), one(Text{a, "one"})},
			[]TextFact{{Item: a, Text: "one"}, {Item: b, Text: "two"}}, "one\ntwo"},
		{"parts of one item have no newline between them", [][]Op{one(Text{a, "one"}), one(Text{part, " two"})},
			[]TextFact{{Item: a, Text: "one"}, {Item: part, Text: " two"}}, "one two"},
		{"a done text that agrees", [][]Op{one(Text{a, "one"}), one(TextDone{a, "one"})}, []TextFact{{Item: a, Text: "one"}}, "one"},
		{"a done text that differs is not the text", [][]Op{one(Text{a, "one"}), one(TextDone{a, "other"})}, []TextFact{{Item: a, Text: "one", Differs: true}}, "one"},
		{"a done text without any delta differs", [][]Op{one(TextDone{a, "one"})}, []TextFact{{Item: a, Differs: true}}, ""},
		{"an empty done text without any delta agrees", [][]Op{one(TextDone{a, ""})}, []TextFact{{Item: a}}, ""},
		{"halves are joined on both sides", [][]Op{one(Text{a, "\xed\xa0\xbd"}), one(Text{a, "\xed\xba\x80"}), one(TextDone{a, "🚀"})}, []TextFact{{Item: a, Text: "🚀"}}, "🚀"},
		{"halves of two items are not", [][]Op{one(Text{a, "\xed\xa0\xbd"}), one(Text{b, "\xed\xba\x80"})},
			[]TextFact{{Item: a, Text: "\ufffd"}, {Item: b, Text: "\ufffd"}}, "\ufffd\n\ufffd"},
		{"a final text is none where deltas were", [][]Op{one(Text{a, "one"}), one(FinalText{a, "one two"})}, []TextFact{{Item: a, Text: "one"}}, "one"},
		{"choices beside the first are not the answer", [][]Op{one(Text{ItemRef{}, "one"}), one(Text{ItemRef{Choice: 1}, "two"})},
			[]TextFact{{Text: "one"}, {Item: ItemRef{Choice: 1}, Text: "two"}}, "one"},
		{"items without text leave no newline", [][]Op{one(Text{a, "one"}), one(TextDone{ItemRef{OutputIndex: 1}, ""}), one(Text{b, "two"})},
			[]TextFact{{Item: a, Text: "one"}, {Item: ItemRef{OutputIndex: 1}}, {Item: b, Text: "two"}}, "one\ntwo"},
		{"thoughts are no text", [][]Op{one(Thought{"hm"})}, nil, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			f := of(tc.ops...).Facts()
			if diff := cmp.Diff(tc.want, f.Texts); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
			if f.Answer() != tc.answer || f.FromEnd {
				t.Errorf("answer %q, want %q; from the end %v", f.Answer(), tc.answer, f.FromEnd)
			}
		})
	}
	t.Run("a final text is the text where no delta was", func(t *testing.T) {
		f := of(one(FinalText{ItemRef{OutputIndex: 1}, "two"}), one(FinalText{ItemRef{}, "one"}), one(FinalText{ItemRef{}, "one again"})).Facts()
		if !f.FromEnd || f.Answer() != "one again\ntwo" {
			t.Errorf("answer %q, from the end %v", f.Answer(), f.FromEnd)
		}
	})
}

// TestTheFinalObjectAgreesWithTheDeltas in all its words; how it cuts them
// into items is its own affair.
func TestTheFinalObjectAgreesWithTheDeltas(t *testing.T) {
	first, second := ItemRef{ItemID: "a"}, ItemRef{ItemID: "b", OutputIndex: 3}
	deltas := [][]Op{one(Text{second, "two 🚀"}), one(Text{first, "one "}), one(Text{first, "more"})}
	for _, tc := range []struct {
		rule     string
		ops      [][]Op
		messages []string
		differs  bool
	}{
		{"the same items", deltas, []string{"one more", "two 🚀"}, false},
		{"the same words in one item", deltas, []string{"one moretwo 🚀"}, false},
		{"half a character in its place", deltas, []string{"one more", "two \xed\xa0\xbd\xed\xba\x80"}, false},
		{"other words", deltas, []string{"one more", "two"}, true},
		{"another order", deltas, []string{"two 🚀", "one more"}, true},
		{"no message at all", deltas, []string{}, false},
		{"no output", deltas, nil, false},
		{"no delta", nil, []string{"whole"}, true},
		{"no delta, and the text is taken from it", [][]Op{one(FinalText{ItemRef{}, "whole"})}, []string{"whole"}, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			end := Response{Event: "response.completed", Status: "completed", Messages: tc.messages}
			f := of(append(tc.ops[:len(tc.ops):len(tc.ops)], one(end), one(Response{Event: "response.output_text.delta", ID: "r"}))...).Facts()
			if f.Differs != tc.differs {
				t.Errorf("differs: %v", f.Differs)
			}
		})
	}
}

func TestFinishes(t *testing.T) {
	f := of(
		[]Op{Finish{0, "stop"}, Finish{1, ""}},
		[]Op{Finish{0, ""}, Text{ItemRef{Choice: 4}, "x"}},
		[]Op{Finish{0, "length"}, Finish{0, "stop"}},
	).Facts()
	want := map[int][]string{0: {"length", "stop"}, 1: {}, 4: {}}
	if diff := cmp.Diff(want, f.Finishes); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if !f.OtherChoices() {
		t.Error("the other choices are not reported")
	}
	if alone := of(one(Finish{0, "stop"})).Facts(); alone.OtherChoices() {
		t.Error("choice 0 is reported as another one")
	}
}

func TestTheLastWordCounts(t *testing.T) {
	yes, no := true, false
	f := of(
		[]Op{Usage{value("1")}, Named{"a"}, Session{"s1"}, Hermes{Failed: &yes, ErrorCode: "x"}, Response{Event: "response.created", ID: "r", Status: "in_progress"}},
		[]Op{Usage{value("2")}, Named{"b"}, Session{"s2"}, Hermes{Failed: &no, ErrorCode: "y"}, Response{Event: "response.completed", Status: "completed"}},
		[]Op{Response{Event: "response.output_text.delta", ID: "r2"}, ProviderError{Type: "t"}, Done{}, Closed{"why"}, Note{}, Note{}},
	).Facts()
	want := Facts{
		Finishes: map[int][]string{}, Usage: value("2"), Named: "b", Session: "s2", Done: true, Closed: "why", Unknown: 2,
		Hermes: &Hermes{Failed: &no, ErrorCode: "y"},
		// Except for this: a failure is never taken back.
		Failed: true,
		// Nor is an id or a status by an event that leaves it out.
		Response: &Response{Event: "response.output_text.delta", ID: "r2", Status: "completed"},
		Events:   map[string]bool{"response.created": true, "response.completed": true, "response.output_text.delta": true},
		Errors:   []ProviderError{{Type: "t"}},
	}
	if diff := cmp.Diff(want, f); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

func TestOnlyAFailureIsOne(t *testing.T) {
	yes, no := true, false
	for _, tc := range []struct {
		ops  [][]Op
		want bool
	}{
		{nil, false}, {[][]Op{one(Hermes{})}, false}, {[][]Op{one(Hermes{Failed: &no})}, false}, {[][]Op{one(Hermes{Completed: &yes, Partial: &yes})}, false},
		{[][]Op{one(Hermes{Failed: &yes})}, true}, {[][]Op{one(Hermes{Failed: &no}), one(Hermes{Failed: &yes}), one(Hermes{})}, true},
	} {
		if f := of(tc.ops...).Facts(); f.Failed != tc.want {
			t.Errorf("%+v: failed %v", tc.ops, f.Failed)
		}
	}
}

func TestErrorsStandInTheOrderOfTheirSequences(t *testing.T) {
	tr := New()
	for _, seq := range []uint64{7, 2, 9007199254740993, 9007199254740992} {
		tr.Apply(seq, one(ProviderError{Code: fmt.Sprint(seq)}))
	}
	var got []string
	for _, e := range tr.Facts().Errors {
		got = append(got, e.Code)
	}
	if want := "2 7 9007199254740992 9007199254740993"; strings.Join(got, " ") != want {
		t.Errorf("errors %v, want %s", got, want)
	}
}

func TestItems(t *testing.T) {
	f := of(
		one(Item{ItemID: "fc", OutputIndex: 1, Kind: "function_call", CallID: "c", Name: "t", Status: "in_progress", Open: true, Payload: value("1")}),
		one(Item{OutputIndex: 2, Kind: "function_call_output", CallID: "c", Status: "completed", Open: true}),
		one(Item{ItemID: "fc", OutputIndex: 1, Kind: "function_call", CallID: "c", Name: "t", Status: "completed", Payload: value("2")}),
		one(Item{ItemID: "fc", OutputIndex: 1, Kind: "function_call", Status: "in_progress", Open: true, Payload: value("3")}),
		one(Item{OutputIndex: 2, Kind: "function_call_output", CallID: "d", Status: "completed"}),
		// What opens shows its payload, until what closes shows its own; one
		// that closes without any takes none back.
		one(Item{ItemID: "only open", Open: true, Payload: value("1")}),
		one(Item{ItemID: "only open", Open: true, Payload: value("2")}),
		one(Item{ItemID: "closed bare", Open: true, Payload: value("1")}),
		one(Item{ItemID: "closed bare", Status: "completed"}),
		one(Item{ItemID: "closed twice", Payload: value("1")}),
		one(Item{ItemID: "closed twice", Payload: value("2")}),
	).Facts()
	want := []ItemFact{
		{ItemID: "fc", OutputIndex: 1, Kind: "function_call", CallID: "c", Name: "t", Status: "completed", Closed: true, Payload: value("2")},
		{OutputIndex: 2, Kind: "function_call_output", CallID: "c", Status: "completed"},
		{OutputIndex: 2, Kind: "function_call_output", CallID: "d", Status: "completed", Closed: true},
		{ItemID: "only open", Payload: value("1")},
		{ItemID: "closed bare", Status: "completed", Closed: true, Payload: value("1")},
		{ItemID: "closed twice", Closed: true, Payload: value("2")},
	}
	if diff := cmp.Diff(want, f.Items); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
	if got := f.Items[0].Ref(); got != (ItemRef{ItemID: "fc", OutputIndex: 1}) {
		t.Errorf("the item is referred to as %+v", got)
	}
}

func TestFactsAreASnapshot(t *testing.T) {
	tr := of(
		[]Op{Text{ItemRef{}, "a"}, Tool{CallID: "c", Name: "t", Status: ToolRunning}, Finish{0, "length"}},
		[]Op{Item{ItemID: "i", Status: "in_progress", Open: true}, Response{Event: "response.created", Status: "in_progress"}},
	)
	before, again := tr.Facts(), tr.Facts()
	tr.Apply(2, []Op{
		Text{ItemRef{}, "b"}, Tool{CallID: "c", Status: ToolCompleted}, Finish{0, "stop"}, Finish{1, ""},
		Item{ItemID: "i", Status: "completed"}, Response{Event: "response.completed", Status: "completed"},
	})
	if diff := cmp.Diff(again, before); diff != "" {
		t.Errorf("a later chunk changed earlier facts: -want +got\n%s", diff)
	}
	after := tr.Facts()
	after.Finishes[0][0], after.Tools[0].Name, after.Events["forged"] = "forged", "forged", true
	after.Response.Status, after.Items[0].Status, after.Texts[0].Text = "forged", "forged", "forged"
	if s := fmt.Sprintf("%+v %+v", tr.Facts(), tr.Facts().Response); strings.Contains(s, "forged") {
		t.Errorf("who changes facts changes the transcript: %s", s)
	}
}

func TestTheResponseIDIsTheFirstThatWasTold(t *testing.T) {
	tr := New()
	if tr.ResponseID() != "" {
		t.Error("an empty transcript has a response id")
	}
	for seq, id := range []string{"", "resp_1", "resp_2", ""} {
		tr.Apply(uint64(seq), one(Response{ID: id}))
	}
	if got := tr.ResponseID(); got != "resp_1" {
		t.Errorf("response id %q", got)
	}
}

func TestSameItem(t *testing.T) {
	r := ItemRef{Choice: 1, ItemID: "a", OutputIndex: 2, ContentIndex: 3}
	other := r
	other.ContentIndex = 9
	if !r.SameItem(other) {
		t.Error("two parts of one item are taken for two items")
	}
	for _, o := range []ItemRef{{Choice: 2, ItemID: "a", OutputIndex: 2}, {Choice: 1, ItemID: "b", OutputIndex: 2}, {Choice: 1, ItemID: "a", OutputIndex: 1}} {
		if r.SameItem(o) {
			t.Errorf("%+v is taken for the item of %+v", o, r)
		}
	}
}
