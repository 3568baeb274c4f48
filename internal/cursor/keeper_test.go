package cursor

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aipctl/aipctl/internal/state"
	"github.com/google/go-cmp/cmp"
)

var bound = Binding{URL: "http://127.0.0.1:1/edge", Principal: "tok:0123456789abcdef", ActionID: "act_1", Route: "events", Filter: "include_chunks=true"}

// memory is a store that remembers, and fails while it is told to.
type memory struct {
	mu    sync.Mutex
	saved []string // cursor@sequence+time since the start
	tries int
	fail  error
	begin time.Time
	// during is called while a save waits for its turn.
	during func()
}

func (m *memory) Append(ctx context.Context, durable bool, recs ...state.Record) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tries++
	if m.during != nil {
		m.during()
	}
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	if m.fail != nil {
		return m.fail
	}
	for _, r := range recs {
		c := r.Cursor
		if durable || r.Type != state.TypeCursor || r.ActionID != bound.ActionID ||
			c.URL != bound.URL || c.Principal != bound.Principal || c.Route != bound.Route || c.Filter != bound.Filter {
			return fmt.Errorf("a record of another binding: %+v", r)
		}
		m.saved = append(m.saved, show(c.Cursor, c.LastSequence)+"+"+time.Since(m.begin).String())
	}
	return nil
}

func show(cursor string, last *uint64) string {
	if last == nil {
		return cursor + "@none"
	}
	return fmt.Sprintf("%s@%d", cursor, *last)
}

func num(n uint64) *uint64 { return &n }

// inBubble runs a test with a clock of its own, which moves only when the test
// waits.
func inBubble(t *testing.T, opts []Option, do func(*testing.T, *Keeper, *memory)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		m := &memory{begin: time.Now()}
		do(t, NewKeeper(bound, m, opts...), m)
	})
}

func move(t *testing.T, k *Keeper, cursor string, last *uint64) {
	t.Helper()
	if err := k.Move(t.Context(), cursor, last); err != nil {
		t.Fatal(err)
	}
}

func flush(t *testing.T, k *Keeper) {
	t.Helper()
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
}

func wantSaved(t *testing.T, m *memory, want ...string) {
	t.Helper()
	if d := cmp.Diff(want, m.saved); d != "" {
		t.Errorf("saved (-want +got):\n%s", d)
	}
}

func TestSavesAreThrottledAndTheLastIsExact(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, m *memory) {
		for i := range uint64(100) { // one each 10 ms
			move(t, k, fmt.Sprintf("aev_cursor_%d_%d", i, i), num(i))
			time.Sleep(10 * time.Millisecond)
		}
		wantSaved(t, m, "aev_cursor_0_0@0+0s", "aev_cursor_25_25@25+250ms", "aev_cursor_50_50@50+500ms", "aev_cursor_75_75@75+750ms")
		if c, last := k.Latest(); show(c, last) != "aev_cursor_99_99@99" {
			t.Errorf("latest %s", show(c, last))
		}
		flush(t, k)
		flush(t, k)
		wantSaved(t, m, "aev_cursor_0_0@0+0s", "aev_cursor_25_25@25+250ms", "aev_cursor_50_50@50+500ms", "aev_cursor_75_75@75+750ms", "aev_cursor_99_99@99+1s")
		move(t, k, "aev_cursor_99_99", num(99))
		time.Sleep(time.Second)
		move(t, k, "aev_cursor_99_99", num(99))
		if m.tries != 5 {
			t.Errorf("a cursor that is saved was saved again: %d saves", m.tries)
		}
	})
}

func TestIntervalCanBeChanged(t *testing.T) {
	inBubble(t, []Option{Every(0)}, func(t *testing.T, k *Keeper, m *memory) {
		move(t, k, "a", num(1))
		move(t, k, "b", num(2))
		wantSaved(t, m, "a@1+0s", "b@2+0s")
	})
}

func TestCursorNeverGoesBack(t *testing.T) {
	for _, tt := range []struct {
		rule   string
		cursor string
		last   *uint64
		want   string // latest, after aev_cursor_10_5 at sequence 5
	}{
		{"a lower last sequence", "aev_cursor_99_99", num(4), "aev_cursor_10_5@5"},
		{"the same sequence and a lower offset", "aev_cursor_9_5", num(5), "aev_cursor_10_5@5"},
		{"the same sequence and a higher offset", "aev_cursor_11_5", num(5), "aev_cursor_11_5@5"},
		{"a higher sequence and a lower offset", "aev_cursor_1_6", num(6), "aev_cursor_1_6@6"},
		{"nothing new written and a higher offset", "aev_cursor_11_5", nil, "aev_cursor_11_5@5"},
		{"nothing new written and a lower offset", "aev_cursor_9_5", nil, "aev_cursor_10_5@5"},
		{"no cursor", "", num(9), "aev_cursor_10_5@5"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			inBubble(t, []Option{From("aev_cursor_10_5", num(5))}, func(t *testing.T, k *Keeper, m *memory) {
				flush(t, k)
				wantSaved(t, m) // it is saved already
				move(t, k, tt.cursor, tt.last)
				if c, last := k.Latest(); show(c, last) != tt.want {
					t.Errorf("latest %s, want %s", show(c, last), tt.want)
				}
				if moved := tt.want != "aev_cursor_10_5@5"; moved != (m.tries == 1) {
					t.Errorf("%d saves", m.tries)
				}
			})
		})
	}
}

func TestCursorsWithoutNumbersMoveAsTheyCome(t *testing.T) {
	inBubble(t, []Option{Every(0)}, func(t *testing.T, k *Keeper, m *memory) {
		for _, c := range []string{"z", "a", "m"} {
			move(t, k, c, nil)
		}
		wantSaved(t, m, "z@none+0s", "a@none+0s", "m@none+0s")
	})
}

func TestNothingIsSavedBeforeTheFirstCursor(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, m *memory) {
		flush(t, k)
		c, last := k.Latest()
		if c != "" || last != nil || m.tries != 0 || k.Err() != nil {
			t.Errorf("%q %v %d %v", c, last, m.tries, k.Err())
		}
	})
}

func TestTroubleIsReportedOnceAndRemembered(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, m *memory) {
		full := errors.New("no space left on device")
		m.fail = full
		if err := k.Move(t.Context(), "a", num(1)); !errors.Is(err, full) {
			t.Fatalf("the first failure: %v", err)
		}
		for i := range uint64(400) { // 20 s
			time.Sleep(50 * time.Millisecond)
			move(t, k, "b", num(2+i))
		}
		if m.tries != 3 {
			t.Errorf("%d attempts in 20 s, want one each 10 s", m.tries)
		}
		if !errors.Is(k.Err(), full) {
			t.Errorf("forgotten: %v", k.Err())
		}
		if err := k.Flush(t.Context()); err != nil || m.tries != 4 {
			t.Errorf("a flush tries at once and says nothing twice: %v, %d attempts", err, m.tries)
		}
		m.fail = nil
		flush(t, k)
		wantSaved(t, m, "b@401+20s")
		if k.Err() != nil {
			t.Errorf("still in trouble: %v", k.Err())
		}
		m.fail = full
		time.Sleep(time.Second)
		if err := k.Move(t.Context(), "c", num(1000)); !errors.Is(err, full) {
			t.Errorf("new trouble: %v", err)
		}
	})
}

// A signal ends the context of the stream first; the flush that follows has
// one of its own.
func TestEndedContextLeavesTheCursorToFlush(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, m *memory) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := k.Move(ctx, "a", num(1)); err != nil || m.tries != 0 {
			t.Errorf("%v, %d attempts", err, m.tries)
		}
		flush(t, k)
		wantSaved(t, m, "a@1+0s")
	})
}

// A signal may come while a save waits for the lock. It is no trouble with the
// file: nothing is reported, and the exact position is kept at the end.
func TestContextThatEndsInASaveLeavesTheCursorToFlush(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, m *memory) {
		ctx, end := context.WithCancel(t.Context())
		m.during = end
		if err := k.Move(ctx, "c_1", num(1)); err != nil || k.Err() != nil {
			t.Errorf("an interrupted save is reported: %v, remembered %v", err, k.Err())
		}
		m.during = nil
		wantSaved(t, m)
		flush(t, k)
		wantSaved(t, m, "c_1@1+0s")
	})
}

func TestNumbersAreTheKeepersOwn(t *testing.T) {
	inBubble(t, nil, func(t *testing.T, k *Keeper, m *memory) {
		last := uint64(1)
		move(t, k, "a", &last)
		last = 99
		_, got := k.Latest()
		*got = 98
		if _, again := k.Latest(); *again != 1 {
			t.Errorf("somebody else changed the sequence to %d", *again)
		}
	})
}

func TestKeeperIsSafeForSeveralGoroutines(t *testing.T) {
	inBubble(t, []Option{Every(0)}, func(t *testing.T, k *Keeper, m *memory) {
		var wg sync.WaitGroup
		for g := range uint64(8) {
			wg.Go(func() {
				for i := range uint64(50) {
					if err := errors.Join(k.Move(t.Context(), "c", num(i*8+g)), k.Flush(t.Context()), k.Err()); err != nil {
						t.Error(err)
					}
				}
			})
		}
		wg.Wait()
		if _, last := k.Latest(); *last != 399 || !strings.HasPrefix(m.saved[len(m.saved)-1], "c@399+") {
			t.Errorf("latest %d, last saved %s", *last, m.saved[len(m.saved)-1])
		}
	})
}

// Through a real state file: what one run kept is what the next one gets, for
// exactly the same binding, and for no other.
func TestSavedGivesBackWhatWasKept(t *testing.T) {
	file := state.New(filepath.Join(t.TempDir(), "state.jsonl"))
	for _, c := range []struct {
		cursor string
		last   *uint64
	}{{"aev_cursor_2_1", num(1)}, {"aev_cursor_9_none", nil}} { // two followers of one action
		k := NewKeeper(bound, file)
		if err := k.Move(t.Context(), c.cursor, c.last); err != nil {
			t.Fatal(err)
		}
	}
	view, _, err := file.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if c, last, ok := Saved(view, bound); !ok || show(c, last) != "aev_cursor_2_1@1" {
		t.Errorf("got %s %v", show(c, last), ok)
	}
	others := map[string]Binding{}
	for _, field := range []string{"url", "principal", "action", "route", "filter"} {
		b := bound
		switch field {
		case "url":
			b.URL = "http://127.0.0.1:1"
		case "principal":
			b.Principal = "anon"
		case "action":
			b.ActionID = "act_2"
		case "route":
			b.Route = "chunks"
		case "filter":
			b.Filter = ""
		}
		others[field] = b
	}
	for field, b := range others {
		if c, last, ok := Saved(view, b); ok || c != "" || last != nil {
			t.Errorf("another %s gets %s", field, show(c, last))
		}
	}
}

// TestWrittenBeforeTheFirstCursorIsKept: a page that was cut before its cursor
// frame has been written out in part, and must not be written again.
func TestWrittenBeforeTheFirstCursorIsKept(t *testing.T) {
	file := state.New(filepath.Join(t.TempDir(), "state.jsonl"))
	b := Binding{URL: "http://127.0.0.1", Principal: "anon", ActionID: "act_1", Route: "events"}
	seq := uint64(4)
	k := NewKeeper(b, file)
	if err := k.Move(t.Context(), "", &seq); err != nil {
		t.Fatal(err)
	}
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	view, _, err := file.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	cursor, last, ok := Saved(view, b)
	if !ok || cursor != "" || last == nil || *last != 4 {
		t.Errorf("saved %q %v %v, want an empty cursor with sequence 4", cursor, last, ok)
	}
}

// A come-back that still has no cursor goes on counting what it writes.
func TestWrittenBeforeTheFirstCursorMovesOn(t *testing.T) {
	file := state.New(filepath.Join(t.TempDir(), "state.jsonl"))
	b := Binding{URL: "http://127.0.0.1", Principal: "anon", ActionID: "act_1", Route: "events"}
	before, after := uint64(4), uint64(9)
	k := NewKeeper(b, file, From("", &before))
	if err := k.Move(t.Context(), "", &after); err != nil {
		t.Fatal(err)
	}
	if err := k.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	view, _, err := file.Load(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if cursor, last, ok := Saved(view, b); !ok || cursor != "" || last == nil || *last != 9 {
		t.Errorf("saved %q %v %v, want an empty cursor with sequence 9", cursor, last, ok)
	}
}
