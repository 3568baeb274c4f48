package state

import (
	"bytes"
	"context"
	"io"
	"os"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

// Every kind of damage people's files have been seen with. Whatever it is, the
// file is never taken for an empty one in silence, a chosen action id is not
// risked, a minted one is recorded, and not one old byte changes.
func TestDamage(t *testing.T) {
	lines := func(b []byte) [][]byte { return bytes.SplitAfter(bytes.TrimSuffix(b, []byte("\n")), []byte("\n")) }
	all := []string{actSettled, actPending, actNotSent}
	for _, tt := range []struct {
		rule      string
		content   func(t *testing.T, whole []byte) []byte
		actions   []string // that are found all the same
		records   int
		damaged   []int // line numbers
		why       string
		recovered bool // of the first damaged line
		torn      bool
		newer     int
		empty     bool
		harmless  bool // nothing is lost, so a chosen id goes on
	}{
		{rule: "zero bytes", content: func(t *testing.T, _ []byte) []byte { return read(t, "testdata/damage/empty.json") }, empty: true, harmless: true},
		{rule: "cut in half", content: func(_ *testing.T, w []byte) []byte { return w[:len(w)/2] }, actions: all[:1], records: 6,
			damaged: []int{7}, why: "it ends in the middle", torn: true},
		{rule: "cut before the last line end", content: func(_ *testing.T, w []byte) []byte { return w[:len(w)-1] }, actions: all, records: 14, harmless: true},
		{rule: "filled with zero bytes", content: func(t *testing.T, _ []byte) []byte { return read(t, "testdata/damage/nul-padded.json") },
			damaged: []int{1}, why: "it ends in the middle", torn: true},
		{rule: "zero bytes behind the records", content: func(_ *testing.T, w []byte) []byte { return append(w, make([]byte, 100)...) }, actions: all, records: 14,
			damaged: []int{15}, why: "it ends in the middle", torn: true},
		{rule: "zero bytes before a record", content: func(_ *testing.T, w []byte) []byte { return append(make([]byte, 100), w...) }, actions: all, records: 14,
			damaged: []int{1}, why: "it is no whole JSON text", recovered: true},
		{rule: "a line of zero bytes", content: func(_ *testing.T, w []byte) []byte { return append([]byte("\x00\x00\x00\n"), w...) }, actions: all, records: 14,
			damaged: []int{1}, why: "it is filled with zero bytes"},
		{rule: "a brace more at the end of the file", content: func(_ *testing.T, w []byte) []byte { return append(w, '}') }, actions: all, records: 14,
			damaged: []int{15}, why: "it ends in the middle", torn: true},
		{rule: "a brace more at the end of a line", content: func(_ *testing.T, w []byte) []byte { return append(w[:len(w)-1], "}\n"...) }, actions: all, records: 14,
			damaged: []int{14}, why: "it is no whole JSON text", recovered: true},
		{rule: "the file twice", content: func(_ *testing.T, w []byte) []byte { return append(w, w...) }, actions: all, records: 14, harmless: true},
		{rule: "a torn file before another", content: func(_ *testing.T, w []byte) []byte { return append(w[:len(w)-30:len(w)-30], w...) }, actions: all, records: 14,
			damaged: []int{14}, why: "it is no whole JSON text", recovered: true},
		{rule: "a list", content: func(_ *testing.T, w []byte) []byte { return append(w, "[]\n"...) }, actions: all, records: 14,
			damaged: []int{15}, why: "it is no JSON object"},
		{rule: "records inside a list", content: func(_ *testing.T, w []byte) []byte {
			return append([]byte("["), bytes.ReplaceAll(w, []byte("\n"), []byte(",\n"))...)
		}, actions: all, records: 14, damaged: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14}, why: "it is no whole JSON text", recovered: true},
		{rule: "all on one line", content: func(_ *testing.T, w []byte) []byte { return bytes.ReplaceAll(w, []byte("\n"), []byte(" ")) }, actions: all, records: 14,
			damaged: []int{1}, why: "it ends in the middle", recovered: true, torn: true},
		{rule: "another program's file", content: func(t *testing.T, _ []byte) []byte { return read(t, "testdata/damage/doubled-brace.json") },
			damaged: []int{1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11}, why: "it is no whole JSON text", torn: true},
		{rule: "another program's file, cut", content: func(t *testing.T, _ []byte) []byte { return read(t, "testdata/damage/truncated.json") },
			damaged: []int{1, 2, 3}, why: "it is no whole JSON text", torn: true},
		{rule: "a newer version", content: func(_ *testing.T, w []byte) []byte {
			return append(w, `{"v":2,"id":7,"at":"a different shape","what":{"v":1}}`+"\n"...)
		}, actions: all, records: 14, newer: 1, harmless: true},
		{rule: "a type of a later version", content: func(_ *testing.T, w []byte) []byte {
			return append(w, `{"v":1,"id":"0f","type":"lease","at":"2030-01-15T09:30:00Z","action_id":"act_other","lease":{}}`+"\n"...)
		}, actions: all, records: 14, newer: 1, harmless: true},
		{rule: "one cursor is a number", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte(`"aev_cursor_41_0"`), []byte("41"), 1)
		}, actions: all, records: 13, damaged: []int{4}, why: "a field has the wrong type"},
		{rule: "one record id is empty", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte(`"00000000000000000000000000000004"`), []byte(`""`), 1)
		}, actions: all, records: 13, damaged: []int{4}, why: "it has no record id"},
		{rule: "one action id is empty", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte(actSettled), nil, 1)
		}, actions: all, records: 13, damaged: []int{1}, why: "it has no action id"},
		{rule: "one name stands twice", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte(`{"v":1,`), []byte(`{"v":1,"action_id":"act_x",`), 1)
		}, actions: all, records: 13, damaged: []int{1}, why: "it is no whole JSON text"},
		{rule: "one byte is no UTF-8", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte("weekly"), []byte("week\xff"), 1)
		}, actions: all, records: 13, damaged: []int{1}, why: "it is no whole JSON text"},
		{rule: "one object is missing", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte(`"submitted":{`), []byte(`"posted":{`), 1)
		}, actions: all, records: 13, damaged: []int{2}, why: "it does not hold the object its type names"},
		{rule: "one time is missing", content: func(_ *testing.T, w []byte) []byte {
			return bytes.Replace(w, []byte(`"at":"2030-01-15T09:30:00.25Z",`), nil, 1)
		}, actions: all, records: 13, damaged: []int{2}, why: "it has no time"},
		{rule: "one version is missing", content: func(_ *testing.T, w []byte) []byte {
			return append(w, `{"id":"0f","type":"submitted","at":"2030-01-15T09:30:00Z","action_id":"act_1","submitted":{}}`+"\n"...)
		}, actions: all, records: 14, damaged: []int{15}, why: "it has no format version"},
		{rule: "a byte order mark from an editor", content: func(_ *testing.T, w []byte) []byte { return append([]byte("\xef\xbb\xbf"), w...) }, actions: all, records: 14, harmless: true},
		{rule: "another system's line ends", content: func(_ *testing.T, w []byte) []byte { return bytes.ReplaceAll(w, []byte("\n"), []byte("\r\n")) }, actions: all, records: 14, harmless: true},
		{rule: "blank lines", content: func(_ *testing.T, w []byte) []byte { return bytes.ReplaceAll(w, []byte("\n"), []byte("\n \n\n")) }, actions: all, records: 14, harmless: true},
		{rule: "unknown fields and another order", content: func(_ *testing.T, w []byte) []byte {
			return append(w, ` { "intent":{"capability_id":"c","later":{"x":[1]}}, "later":true, "action_id":"act_by_hand", "at":"2030-01-15T10:00:00+01:00", "type":"intent", "id":"by hand", "v":1 }`+"\n"...)
		}, actions: []string{"act_by_hand", actSettled, actPending, actNotSent}, records: 15, harmless: true},
		{rule: "one line of two megabytes", content: func(_ *testing.T, w []byte) []byte {
			l := lines(w)
			return slices.Concat(l[0], bytes.Repeat([]byte("x"), 2<<20), []byte("\n"), bytes.Join(l[1:], nil), []byte("\n"))
		}, actions: all, records: 14, damaged: []int{2}, why: "it is longer than a record may be"},
		{rule: "a record in a line of two megabytes", content: func(_ *testing.T, w []byte) []byte {
			l := lines(w)
			return slices.Concat(bytes.Repeat([]byte("x"), 1<<20-10), bytes.TrimSpace(l[0]), bytes.Repeat([]byte("y"), 1<<20), []byte("\n"), bytes.Join(l[1:], nil), []byte("\n"))
		}, actions: all, records: 14, damaged: []int{1}, why: "it is longer than a record may be", recovered: true},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			content := tt.content(t, sound(t))
			path := place(t, content)
			v, rep := load(t, path)
			if got := ids(v); !slices.Equal(got, tt.actions) {
				t.Errorf("actions %v, want %v", got, tt.actions)
			}
			if rep.Records != tt.records || rep.Torn != tt.torn || rep.Newer != tt.newer || rep.Empty != tt.empty || rep.Path != path {
				t.Errorf("report %+v", rep)
			}
			var at []int
			for _, d := range rep.Damaged {
				at = append(at, d.Line)
				if from := content[d.Offset:]; d.Line > 1 && content[d.Offset-1] != '\n' || len(from) == 0 {
					t.Errorf("line %d does not begin at byte %d", d.Line, d.Offset)
				}
			}
			if !slices.Equal(at, tt.damaged) {
				t.Errorf("damaged lines %v, want %v", at, tt.damaged)
			}
			if len(rep.Damaged) > 0 {
				if d := rep.Damaged[0]; d.Why != tt.why || d.Recovered != tt.recovered {
					t.Errorf("first damage %+v", d)
				}
			}
			if told := len(rep.Warnings()) > 0; told != (len(tt.damaged) > 0 || tt.newer > 0 || tt.empty) {
				t.Errorf("warnings %q", rep.Warnings())
			}
			for _, w := range rep.Warnings() {
				if !strings.HasPrefix(w, path+": ") {
					t.Errorf("the warning does not name the file: %q", w)
				}
			}

			f := New(path, still())
			err := f.RecordIntent(t.Context(), "act_chosen", Intent{CapabilityID: "cap:x"}, true)
			if tt.harmless {
				if err != nil {
					t.Errorf("a chosen id is refused: %v", err)
				}
			} else {
				e := faultOf(t, err, fault.State, "state.damaged")
				if !strings.Contains(e.Message, path) || !strings.Contains(e.Hint, "--state FILE") {
					t.Errorf("message %q, hint %q", e.Message, e.Hint)
				}
				if got := read(t, path); !bytes.Equal(got, content) {
					t.Error("the refusal changed the file")
				}
			}
			if err := f.RecordIntent(t.Context(), "act_minted", Intent{CapabilityID: "cap:x"}, false); err != nil {
				t.Errorf("a minted id is refused: %v", err)
			}
			if !bytes.HasPrefix(read(t, path), content) {
				t.Error("an append changed what was there")
			}
			v, after := load(t, path)
			if v.Action("act_minted") == nil || after.Torn || len(after.Damaged) != len(rep.Damaged) {
				t.Errorf("after an append: %v %+v", ids(v), after)
			}
			for _, id := range tt.actions {
				if v.Action(id) == nil {
					t.Errorf("%s was lost by an append", id)
				}
			}
		})
	}
}

// A newer version may have recorded an intent that this one cannot read.
func TestChosenIDNamedByANewerVersionIsRefused(t *testing.T) {
	for rule, line := range map[string]string{
		"spelled out": `{"v":2,"what":"intent","who":"act_chosen"}`,
		"escaped":     `{"v":2,"what":"intent","who":"\u0061ct_chosen"}`,
	} {
		t.Run(rule, func(t *testing.T) {
			path := place(t, append(sound(t), line+"\n"...))
			f := New(path)
			wantFault(t, f.RecordIntent(t.Context(), "act_chosen", Intent{}, true), fault.State, "state.newer_version")
			if err := f.RecordIntent(t.Context(), "act_minted", Intent{}, false); err != nil {
				t.Error(err)
			}
		})
	}
}

// endless is a line of n bytes with a record somewhere inside.
type endless struct {
	left, at int
	record   []byte
}

func (e *endless) Read(p []byte) (int, error) {
	if e.left == 0 {
		return 0, io.EOF
	}
	n := min(len(p), e.left)
	p = p[:n]
	for i := range p {
		p[i] = '"'
	}
	if e.at < n {
		k := copy(p[max(e.at, 0):], e.record[max(-e.at, 0):])
		if done := max(-e.at, 0) + k; done == len(e.record) {
			e.at = 1 << 62
		}
	}
	e.at -= n
	e.left -= n
	return n, nil
}

func TestHugeLineIsReadWithBoundedMemory(t *testing.T) {
	if testing.Short() {
		t.Skip("reads 200 MiB")
	}
	record := bytes.TrimSpace(bytes.SplitAfter(sound(t), []byte("\n"))[0])
	const size = 200 << 20
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	found := 0
	rep, err := scan(t.Context(), &endless{left: size, at: 150<<20 + 12345, record: record}, maxRecord, nil, func(k kind, r *Record, _ []byte) {
		if k == good && r.ActionID == actSettled {
			found++
		}
	})
	runtime.ReadMemStats(&after)
	if err != nil || found != 1 || len(rep.Damaged) != 1 || !rep.Torn || !rep.Damaged[0].Recovered {
		t.Errorf("found %d, %+v, %v", found, rep, err)
	}
	if used := after.TotalAlloc - before.TotalAlloc; used > 8<<20 {
		t.Errorf("a line of %d bytes took %d bytes of memory", size, used)
	}
}

// A record as long as one may be is found wherever in a long line it begins.
func TestLongestRecordIsFoundInALongLine(t *testing.T) {
	const limit = 300
	record := []byte(`{"v":1,"id":"0f","type":"response","at":"2030-01-15T09:30:00Z","action_id":"act_1","response":{"response_id":""}}`)
	record = bytes.Replace(record, []byte(`id":""`), []byte(`id":"`+strings.Repeat("r", limit-len(record))+`"`), 1)
	if len(record) != limit {
		t.Fatal(len(record))
	}
	for lead := range 2 * limit {
		for _, tail := range []int{0, 1, 2, 3, 4, 5, limit} {
			line := slices.Concat(bytes.Repeat([]byte("x"), lead), record, bytes.Repeat([]byte("y"), tail), []byte("\n"))
			found := 0
			_, err := scan(t.Context(), bytes.NewReader(line), limit, nil, func(k kind, r *Record, _ []byte) {
				if k == good {
					found++
				}
			})
			if err != nil || found != 1 {
				t.Fatalf("%d bytes before, %d behind: found %d times, %v", lead, tail, found, err)
			}
		}
	}
}

func TestReadingEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	v, _, err := New(place(t, sound(t))).Load(ctx)
	wantFault(t, err, fault.State, "state.interrupted")
	if v == nil || len(v.Actions()) != 0 {
		t.Error("with an error the view is not empty")
	}
}

func TestLeftOverTemporaryFileIsInNobodysWay(t *testing.T) {
	path := place(t, sound(t))
	if err := os.WriteFile(path+".0123456789abcdef.tmp", []byte("half a li"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := New(path).RecordIntent(t.Context(), "act_chosen", Intent{}, true); err != nil {
		t.Error(err)
	}
	if v, rep := load(t, path); len(v.Actions()) != 4 || !rep.Sound() {
		t.Errorf("%v %+v", ids(v), rep)
	}
}
