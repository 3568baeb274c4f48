package engine_test

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// The journal of one life.

// RecordIntent implements engine.Journal.
func (l *life) RecordIntent(_ context.Context, id string, in state.Intent, _ bool) error {
	return l.step(atJournal, func() error { return l.w.ledger.intent(id, in) })
}

// Append implements engine.Journal.
func (l *life) Append(ctx context.Context, _ bool, recs ...state.Record) error {
	return l.step(atJournal, func() error {
		if err := ctx.Err(); err != nil {
			return fault.New(fault.State, "state.interrupted", "interrupted")
		}
		l.mu.Lock()
		appends := l.counts["appends"]
		l.counts["appends"]++
		full := l.plan.stateFull > 0 && appends >= l.plan.stateFull-1 && appends < l.plan.stateFull+3
		if full {
			l.failing = true
		}
		l.mu.Unlock()
		if full {
			l.w.hit(fStateFull, l)
			return fault.New(fault.State, "state.unwritable", "no space left on device")
		}
		for i := range recs {
			if recs[i].Type == state.TypeCursor {
				l.moved(recs[i].Cursor)
			}
		}
		l.w.ledger.append(recs...)
		return nil
	})
}

// moved checks a cursor that is about to be kept: nothing before it may be
// unwritten.
func (l *life) moved(c *state.Cursor) {
	l.w.note("life %d: cursor %s, last %s", l.n, c.Cursor, spell(c.LastSequence))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.kept != nil && c.Compare(l.kept) < 0 {
		l.violate("the cursor went back from %s to %s", l.kept.Cursor, c.Cursor)
	}
	l.kept = c
	written := l.sawAt
	if n := len(l.out); n > 0 {
		written = &l.out[n-1].seq
	}
	if c.LastSequence != nil && (written == nil || *c.LastSequence > *written) {
		l.violate("the state file says that %s was written, and it was %s", spell(c.LastSequence), spell(written))
	}
	if i := strings.LastIndexByte(c.Cursor, '_'); i >= 0 {
		seq, err := strconv.ParseUint(c.Cursor[i+1:], 10, 64)
		for s := seq; err == nil && (written == nil || s > *written); s-- {
			if !l.w.plan.absent(s) && !covered(l.gaps, s) {
				l.violate("the cursor %s was kept when %s had been written", c.Cursor, spell(written))
				break
			}
			if s == 0 {
				break
			}
		}
	}
}

// ledger is the state file in memory: what was appended stays, whatever
// becomes of the process.
type ledger struct {
	path string

	mu   sync.Mutex
	recs []state.Record
	at   time.Time
}

func (g *ledger) intent(id string, in state.Intent) error {
	if g.hasIntent(id) {
		return fault.New(fault.Usage, "state.duplicate_intent", "%s has an intent already", id)
	}
	g.append(state.Record{Type: state.TypeIntent, ActionID: id, Intent: &in})
	return nil
}

func (g *ledger) hasIntent(id string) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for i := range g.recs {
		if g.recs[i].Type == state.TypeIntent && g.recs[i].ActionID == id {
			return true
		}
	}
	return false
}

func (g *ledger) append(recs ...state.Record) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, r := range recs {
		now := time.Now().UTC()
		if !now.After(g.at) {
			now = g.at.Add(1)
		}
		g.at = now
		r.V, r.ID, r.At = state.Version, fmt.Sprintf("%032x", len(g.recs)+1), now
		if r.Cursor != nil {
			c := *r.Cursor
			r.Cursor = &c
		}
		g.recs = append(g.recs, r)
	}
}

func (g *ledger) records(t state.Type) []state.Record {
	g.mu.Lock()
	defer g.mu.Unlock()
	var out []state.Record
	for _, r := range g.recs {
		if r.Type == t {
			out = append(out, r)
		}
	}
	return out
}

// view reads the records as a new process would.
func (g *ledger) view() *state.View {
	g.mu.Lock()
	defer g.mu.Unlock()
	var lines []byte
	for i := range g.recs {
		line, err := json.Marshal(&g.recs[i], jsontext.AllowInvalidUTF8(true))
		if err != nil {
			panic(err)
		}
		lines = append(append(lines, line...), '\n')
	}
	if err := os.WriteFile(g.path, lines, 0o600); err != nil {
		panic(err)
	}
	v, report, err := state.New(g.path).Load(context.Background())
	if err != nil || report.Records != len(g.recs) {
		panic(fmt.Sprintf("the state file does not read back: %d of %d records, %v", report.Records, len(g.recs), err))
	}
	return v
}
