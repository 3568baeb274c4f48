package follow

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

const actionID = "act_ours"

// piece makes a chunk whose content is told by a word; the words done and
// error make it one that closes the log.
func piece(seq uint64, word string) *aip.Chunk {
	c := &aip.Chunk{ActionID: actionID, Sequence: seq, Kind: aip.KindData, Frame: &aip.Frame{Data: jsontext.Value(fmt.Sprintf("%q", word))}}
	switch word {
	case "done":
		c.Kind, c.Frame.Terminal = aip.KindDone, true
	case "error":
		c.Kind = aip.KindError
	}
	return c
}

func (p Place) name() string {
	return [...]string{"next", "held", "repeat", "past", "conflict", "stray", "above"}[p]
}

func at(n uint64) *uint64 { return &n }

// added is one input of the order and what came of it: the place, and behind
// it the sequences that are delivered.
type added struct {
	c    *aip.Chunk
	want string
}

func TestOrderPlaces(t *testing.T) {
	foreign := piece(1, "b")
	foreign.ActionID = "act_theirs"
	nameless := piece(0, "a")
	nameless.ActionID = ""
	tests := []struct {
		rule  string
		begin Begin
		adds  []added
		last  *uint64
		hole  string
	}{
		{"sequence 0 begins the delivery", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(1, "b"), "next 1"},
		}, at(1), ""},
		{"a first chunk above 0 waits, because only the start can tell whether something stood before it", Begin{}, []added{
			{piece(3, "d"), "held"},
		}, nil, "0-2"},
		{"a cursor given by hand begins anywhere", Begin{Anywhere: true}, []added{
			{piece(7, "h"), "next 7"}, {piece(8, "i"), "next 8"}, {piece(10, "k"), "held"},
		}, at(8), "9-9"},
		{"what was written is past, and the next is next", Begin{Written: at(4)}, []added{
			{piece(4, "e"), "past"}, {piece(0, "a"), "past"}, {piece(5, "f"), "next 5"},
		}, at(5), ""},
		{"a hole behind what was written holds back", Begin{Written: at(4)}, []added{
			{piece(6, "g"), "held"},
		}, at(4), "5-5"},
		{"a hole holds back all above it", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(2, "c"), "held"}, {piece(3, "d"), "held"},
		}, at(0), "1-1"},
		{"a filled hole releases in order", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(3, "d"), "held"}, {piece(2, "c"), "held"}, {piece(1, "b"), "next 1 2 3"},
		}, at(3), ""},
		{"a filled hole releases up to the next hole", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(2, "c"), "held"}, {piece(4, "e"), "held"}, {piece(1, "b"), "next 1 2"},
		}, at(2), "3-3"},
		{"an equal repeat is silent", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(0, "a"), "repeat"},
		}, at(0), ""},
		{"an equal repeat of a held chunk is silent", Begin{}, []added{
			{piece(2, "c"), "held"}, {piece(2, "c"), "repeat"},
		}, nil, "0-1"},
		{"an equal repeat of a past chunk is silent", Begin{Written: at(4)}, []added{
			{piece(2, "c"), "past"}, {piece(2, "c"), "repeat"},
		}, at(4), ""},
		{"another content conflicts", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(0, "x"), "conflict"}, {piece(0, "x"), "conflict"},
		}, at(0), ""},
		{"the content first seen stays", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(0, "x"), "conflict"}, {piece(0, "a"), "repeat"},
		}, at(0), ""},
		{"a held chunk can be contradicted before it is delivered", Begin{}, []added{
			{piece(1, "b"), "held"}, {piece(1, "x"), "conflict"}, {piece(0, "a"), "next 0 1"},
		}, at(1), ""},
		{"a past chunk can be contradicted", Begin{Written: at(4)}, []added{
			{piece(2, "c"), "past"}, {piece(2, "x"), "conflict"},
		}, at(4), ""},
		{"a chunk of another action is a stray", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {foreign, "stray"}, {piece(1, "b"), "next 1"},
		}, at(1), ""},
		{"a chunk that names no action is this one's", Begin{}, []added{
			{nameless, "next 0"},
		}, at(0), ""},
		{"a done chunk closes the log", Begin{}, []added{
			{piece(0, "done"), "next 0"}, {piece(1, "b"), "above"}, {piece(1, "b"), "above"},
		}, at(0), ""},
		{"an error chunk closes the log", Begin{}, []added{
			{piece(0, "error"), "next 0"}, {piece(1, "b"), "above"},
		}, at(0), ""},
		{"a terminal chunk repeats like any other", Begin{}, []added{
			{piece(0, "done"), "next 0"}, {piece(0, "done"), "repeat"},
		}, at(0), ""},
		{"what lies below a terminal chunk may come later", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(2, "done"), "held"}, {piece(1, "b"), "next 1 2"},
		}, at(2), ""},
		{"a terminal chunk below a delivered one contradicts", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(1, "b"), "next 1"}, {piece(2, "c"), "next 2"}, {piece(1, "done"), "conflict"},
		}, at(2), ""},
		{"a terminal chunk below a held one contradicts", Begin{}, []added{
			{piece(0, "a"), "next 0"}, {piece(2, "c"), "held"}, {piece(1, "done"), "above"},
		}, at(0), "1-1"},
		{"a past terminal chunk closes the log for what follows", Begin{Written: at(4)}, []added{
			{piece(4, "done"), "past"}, {piece(5, "f"), "above"},
		}, at(4), ""},
		{"the largest sequence there is has no successor", Begin{Anywhere: true}, []added{
			{piece(math.MaxUint64, "z"), "next 18446744073709551615"}, {piece(0, "a"), "past"},
		}, at(math.MaxUint64), ""},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			o := NewOrder(actionID, tt.begin)
			for i, a := range tt.adds {
				place, out := o.Add(a.c)
				got := place.name()
				for _, c := range out {
					got += fmt.Sprintf(" %d", c.Sequence)
				}
				if got != a.want {
					t.Errorf("input %d, sequence %d: %s, want %s", i, a.c.Sequence, got, a.want)
				}
			}
			if diff := cmp.Diff(tt.last, o.Last()); diff != "" {
				t.Errorf("last delivered (-want +got):\n%s", diff)
			}
			hole := ""
			if r, ok := o.Hole(); ok {
				hole = fmt.Sprintf("%d-%d", r.From, r.To)
			}
			if hole != tt.hole || o.Holding() != (tt.hole != "") {
				t.Errorf("hole %q, holding %t, want %q", hole, o.Holding(), tt.hole)
			}
		})
	}
}

// Two deliveries are the same when their JSON values are: a store may spell
// them anew.
func TestOrderEqualityIsOfTheValue(t *testing.T) {
	frame := func(data, raw string) *aip.Chunk {
		return &aip.Chunk{ActionID: actionID, Kind: aip.KindData, Frame: &aip.Frame{Data: jsontext.Value(data), Raw: raw}}
	}
	first := `{"choices":[{"index":0,"delta":{"content":"caf\u00e9"}}],"n":10}`
	tests := []struct {
		rule   string
		second *aip.Chunk
		want   Place
	}{
		{"key order is free", frame(`{"n":10,"choices":[{"delta":{"content":"café"},"index":0}]}`, ""), Repeat},
		{"numbers count by value", frame(`{"choices":[{"index":0.0,"delta":{"content":"café"}}],"n":1e1}`, ""), Repeat},
		{"a null member is an absent one", frame(`{"choices":[{"index":0,"delta":{"content":"café","role":null}}],"n":10}`, ""), Repeat},
		{"raw_data is not compared", frame(first, "anything"), Repeat},
		{"another text is another content", frame(`{"choices":[{"index":0,"delta":{"content":"cafe"}}],"n":10}`, ""), Conflict},
		{"array order counts", frame(`{"choices":[],"n":10}`, ""), Conflict},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			o := NewOrder(actionID, Begin{})
			o.Add(frame(first, ""))
			if got, _ := o.Add(tt.second); got != tt.want {
				t.Errorf("place %s, want %s", got.name(), tt.want.name())
			}
		})
	}
}

func TestOrderPassesHolesLowestFirst(t *testing.T) {
	o := NewOrder(actionID, Begin{})
	for _, seq := range []uint64{2, 3, 6, 9} {
		o.Add(piece(seq, "x"))
	}
	var got []string
	for o.Holding() {
		out, hole, begin := o.PassHole()
		line := fmt.Sprintf("%d-%d begin=%t:", hole.From, hole.To, begin)
		for _, c := range out {
			line += fmt.Sprintf(" %d", c.Sequence)
		}
		got = append(got, line)
	}
	// A stream may begin above 0, so what lies before its first chunk is no
	// hole, once a read from the start has not brought it.
	want := []string{"0-1 begin=true: 2 3", "4-5 begin=false: 6", "7-8 begin=false: 9"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("holes (-want +got):\n%s", diff)
	}
	if out, _, _ := o.PassHole(); out != nil {
		t.Errorf("passing no hole delivered %d chunks", len(out))
	}
	if place, _ := o.Add(piece(4, "late")); place != Past {
		t.Errorf("what fills a passed hole is %s, want past: its text is not put in later", place.name())
	}
}

// Whatever comes in whatever order and how often: each sequence is delivered
// once, rising, and all are delivered when nothing is missing.
func TestOrderDeliversEachSequenceOnceAndRising(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	for range 500 {
		n := 1 + rnd.IntN(30)
		var in []*aip.Chunk
		for seq := range n {
			for range 1 + rnd.IntN(3) {
				in = append(in, piece(uint64(seq), "x"))
			}
		}
		rnd.Shuffle(len(in), func(i, j int) { in[i], in[j] = in[j], in[i] })
		o := NewOrder(actionID, Begin{})
		var got []uint64
		for _, c := range in {
			_, out := o.Add(c)
			for _, c := range out {
				got = append(got, c.Sequence)
			}
		}
		want := make([]uint64, n)
		for i := range want {
			want[i] = uint64(i)
		}
		if !slices.Equal(got, want) || o.Holding() || o.Count() != n || !slices.Equal(o.Sequences(), want) {
			t.Fatalf("delivered %v of %d sequences, holding %t", got, n, o.Holding())
		}
	}
}

func TestOrderKnowsWhatItHasSeen(t *testing.T) {
	o := NewOrder(actionID, Begin{})
	if o.Last() != nil || o.Terminal() != nil {
		t.Error("an empty order has a last or a terminal sequence")
	}
	first := piece(0, "a")
	o.Add(first)
	o.Add(piece(0, "b"))
	o.Add(piece(1, "done"))
	if d, ok := o.Seen(0); !ok || d != first.Digest() {
		t.Errorf("seen(0) is %s %t, want the first content %s", d, ok, first.Digest())
	}
	if _, ok := o.Seen(7); ok {
		t.Error("a sequence that never came was seen")
	}
	if s := o.Terminal(); s == nil || *s != 1 {
		t.Errorf("terminal sequence %v, want 1", s)
	}
}
