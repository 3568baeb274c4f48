package engine_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
)

var (
	modelSeeds = flag.Int("model.seeds", 300, "how many seeds the model check runs")
	modelStart = flag.Uint64("model.start", 1, "the first seed of the model check")
)

// oracle knows how a scenario goes when nobody disturbs it.
type oracle struct {
	verdict  string
	text     map[uint64]string // of every chunk
	textSeqs []uint64          // of those that have some
}

// oracles are those of every scenario in every mode. They are learnt once,
// from undisturbed calls.
type oracles struct {
	scenarios []devserver.Scenario
	by        map[string]oracle
}

func (o oracles) of(sc devserver.Scenario, mode string) oracle { return o.by[sc.Name+" "+mode] }

// modesOf are the modes in which a scenario is called.
func modesOf(sc devserver.Scenario) []string {
	if sc.Mode != "streaming" {
		return []string{sc.Mode}
	}
	return []string{"streaming", "streaming", "streaming", "sync", "async"}
}

var (
	oraclesOf   oracles
	oraclesOnce sync.Once
)

func learn(t *testing.T) {
	oraclesOnce.Do(func() {
		oraclesOf = oracles{scenarios: slices.DeleteFunc(devserver.Scenarios(), unstreamed), by: map[string]oracle{}}
		scratch := filepath.Join(t.TempDir(), "state.jsonl")
		for _, sc := range oraclesOf.scenarios {
			for _, mode := range slices.Compact(modesOf(sc)) {
				synctest.Test(t, func(t *testing.T) { oraclesOf.by[sc.Name+" "+mode] = undisturbed(t, sc, mode, scratch) })
			}
		}
	})
}

// unstreamed reports an operation on a stored response: one short request, which
// has no stream to disturb.
func unstreamed(sc devserver.Scenario) bool {
	return sc.Operation == "response_get" || sc.Operation == "response_delete"
}

func undisturbed(t *testing.T, sc devserver.Scenario, mode, scratch string) oracle {
	w := newWorld(0, plan{scenario: sc, mode: mode, speed: 1, lives: make([]lifePlan, 1)}, scratch, nil)
	defer w.close()
	l := w.newLife("call", lifePlan{})
	l.run()
	if l.result == nil || len(w.broken) > 0 {
		t.Fatalf("%s in mode %s, undisturbed: %v; %q", sc.Name, mode, l.err, w.broken)
	}
	or := oracle{verdict: l.result.Verdict, text: map[uint64]string{}}
	for _, d := range l.out {
		or.text[d.seq] = d.text
		if d.text != "" {
			or.textSeqs = append(or.textSeqs, d.seq)
		}
	}
	return or
}

// run plays one seed in a world of its own.
func run(t *testing.T, seed uint64, scratch string, b *bug) (w *world) {
	defer func() {
		if p := recover(); p != nil {
			stacks := make([]byte, 1<<20)
			stacks = stacks[:runtime.Stack(stacks, true)]
			if w == nil {
				panic(p)
			}
			w.violate("the world came to a standstill or left something running: %v\n%s", p, bubbles(string(stacks)))
		}
	}()
	synctest.Test(t, func(*testing.T) {
		w = newWorld(seed, newPlan(seed, oraclesOf), scratch, b)
		w.play()
	})
	return w
}

// bubbles keeps the stacks of what waits inside a bubble.
func bubbles(stacks string) string {
	var out []string
	for g := range strings.SplitSeq(stacks, "\n\n") {
		if strings.Contains(g, "synctest bubble") {
			out = append(out, g)
		}
	}
	return strings.Join(out, "\n\n")
}

// TestModel plays random schedules of trouble against the whole way from the
// engine to the daemon, in memory and under virtual time, and holds every run
// against an undisturbed one: nothing is executed twice, no text is lost or
// repeated, no cursor passes what was written, and no verdict is wrong.
func TestModel(t *testing.T) {
	learn(t)
	hits := newTally()
	seeds := *modelSeeds
	if testing.Short() {
		seeds = min(seeds, 60)
	}
	shards := min(runtime.GOMAXPROCS(0), seeds)
	t.Run("seeds", func(t *testing.T) {
		for shard := range shards {
			t.Run(fmt.Sprintf("shard %d", shard), func(t *testing.T) {
				t.Parallel()
				scratch := filepath.Join(t.TempDir(), "state.jsonl")
				failed := 0
				for i := shard; i < seeds && failed < 10; i += shards {
					_ = os.Remove(scratch)
					w := run(t, *modelStart+uint64(i), scratch, nil)
					hits.add(w.bitten)
					if len(w.broken) > 0 {
						failed++
						t.Error(w.report())
					}
				}
			})
		}
	})
	var table strings.Builder
	leastFault, leastPhase := hits.print(&table)
	t.Logf("%d seeds from %d; in how many of them each fault bit, and when:\n%s", seeds, *modelStart, table.String())
	if seeds >= 10_000 && min(leastFault, leastPhase) < 100 {
		t.Errorf("some fault bit in %d seeds and some phase was met in %d, want each in 100 at least", leastFault, leastPhase)
	}
}

// The oracle comes from the client itself, so it is held against the verdicts
// that were written down by hand.
func TestOracles(t *testing.T) {
	learn(t)
	written := map[string]string{}
	for _, row := range aiptest.Table(t, "scenarios.tsv") {
		written[row.Get("scenario")] = row.Get("verdict")
	}
	verdicts, texts := map[string]bool{}, 0
	for _, sc := range oraclesOf.scenarios {
		or := oraclesOf.of(sc, sc.Mode)
		if or.verdict != written[sc.Name] {
			t.Errorf("%s came to %s, and is written down as %q", sc.Name, or.verdict, written[sc.Name])
		}
		verdicts[or.verdict] = true
		if len(or.textSeqs) > 0 {
			texts++
		}
	}
	for _, want := range []string{"accepted", "failed", "partial", "incomplete", "unknown", "conflict", "cancelled", "rejected", "pending", "auth"} {
		if !verdicts[want] {
			t.Errorf("no scenario is %s: the model would never see that one changed", want)
		}
	}
	if texts < len(oraclesOf.scenarios)/2 {
		t.Errorf("only %d of %d scenarios have text", texts, len(oraclesOf.scenarios))
	}
}
