package engine

import (
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

func TestItemsStandAsTheyWereOpened(t *testing.T) {
	open := func(kind, id string, index int) transcript.Op {
		return transcript.Item{Kind: kind, ItemID: id, OutputIndex: index, Open: true}
	}
	text := func(id string, index, part int, s string) transcript.Op {
		return transcript.Text{Item: transcript.ItemRef{ItemID: id, OutputIndex: index, ContentIndex: part}, Text: s}
	}
	for _, tc := range []struct {
		rule string
		ops  []transcript.Op
		want string
	}{
		{"a message behind a call", []transcript.Op{open("function_call", "fc", 0), open("message", "m", 1), text("m", 1, 0, "a")}, "function_call:fc message:m=a"},
		{"the parts of a message stay together", []transcript.Op{open("message", "m", 0), text("m", 0, 0, "a"), open("function_call", "fc", 1), text("m", 0, 1, "b")}, "message:m=a message:m=b function_call:fc"},
		{"a message that was opened and never filled", []transcript.Op{open("message", "m", 0), open("function_call", "fc", 1)}, "message:m function_call:fc"},
		{"a text that no event opened", []transcript.Op{open("function_call", "fc", 1), text("m", 0, 0, "a"), text("n", 2, 0, "b")}, "message:m=a function_call:fc message:n=b"},
		{"a message whose words only the end has", []transcript.Op{open("message", "m", 0), transcript.FinalText{Text: "a"}}, "message:=a"},
		{"a chat without words", []transcript.Op{transcript.Finish{Reason: "stop"}}, "message:"},
		{"two choices of a chat", []transcript.Op{transcript.Finish{}, transcript.Text{Item: transcript.ItemRef{Choice: 1}, Text: "b"}, transcript.Text{Text: "a"}}, "message:=a message:=b"},
		{"nothing", nil, ""},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			script := transcript.New()
			script.Apply(0, tc.ops)
			var got []string
			for _, it := range items(script.Facts()) {
				s := it.Kind + ":" + it.ItemID
				if it.Text != "" {
					s += "=" + it.Text
				}
				got = append(got, s)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" {
				t.Errorf("-want +got\n%s", diff)
			}
		})
	}
}

func TestUsageThatCountsNothing(t *testing.T) {
	for usage, want := range map[string]bool{
		`{"input_tokens":0,"output_tokens":0,"total_tokens":0}`:          true,
		`{"input_tokens":2400,"output_tokens":0,"total_tokens":2400}`:    false,
		`{"prompt_tokens":0,"completion_tokens":12345678901234567890}`:   false,
		`{"prompt_tokens":0,"completion_tokens":0,"details":{"seen":7}}`: true,
	} {
		if got := countsNothing(jsontext.Value(usage)); got != want {
			t.Errorf("%s counts nothing: %v, want %v", usage, got, want)
		}
	}
}

func TestFinalTextThatWasSaidBefore(t *testing.T) {
	a, b := transcript.ItemRef{}, transcript.ItemRef{ItemID: "b"}
	for _, tc := range []struct {
		rule string
		at   uint64
		ops  []transcript.Op
		want bool
	}{
		{"a delta before it", 1, []transcript.Op{transcript.Text{Text: "x"}}, true},
		{"a delta behind it", 9, []transcript.Op{transcript.Text{Text: "x"}}, false},
		{"a delta without words", 1, []transcript.Op{transcript.Text{}}, false},
		{"the same final before it", 1, []transcript.Op{transcript.FinalText{Item: a, Text: "x"}}, true},
		{"the final of another item", 1, []transcript.Op{transcript.FinalText{Item: b, Text: "x"}}, false},
		{"a final without words", 1, []transcript.Op{transcript.FinalText{Item: a}}, false},
		{"itself", 5, []transcript.Op{transcript.FinalText{Item: a, Text: "x"}}, false},
	} {
		t.Run(tc.rule, func(t *testing.T) {
			var s said
			s.note(tc.at, tc.ops)
			s.note(5, []transcript.Op{transcript.FinalText{Item: a, Text: "x"}})
			if got := s.before(5, a); got != tc.want {
				t.Errorf("said before: %v, want %v", got, tc.want)
			}
			left := s.unsaid(5, []transcript.Op{transcript.FinalText{Item: a, Text: "x"}, transcript.Named{Name: "end"}})
			if n := map[bool]int{true: 1, false: 2}[tc.want]; len(left) != n {
				t.Errorf("%d operations are left, want %d", len(left), n)
			}
		})
	}
}
