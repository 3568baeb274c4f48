package engine_test

import (
	"fmt"
	"io"
	"math"
	"strings"
	"sync"
)

// tally counts in how many seeds each fault bit, by the phase it bit in.
type tally struct {
	mu   sync.Mutex
	hits map[string]*[phases]int
}

func newTally() *tally { return &tally{hits: map[string]*[phases]int{}} }

// add takes the hits of one seed.
func (t *tally) add(bitten map[hitKey]bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for k := range bitten {
		if t.hits[k.name] == nil {
			t.hits[k.name] = new([phases]int)
		}
		t.hits[k.name][k.phase]++
	}
}

// hitKey is one cell of the table of hits.
type hitKey struct {
	name  string
	phase phase
}

// print writes the table and returns the smallest totals of a fault and of a
// phase.
func (t *tally) print(out io.Writer) (fault, phase int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	fmt.Fprintf(out, "%-32s", "fault")
	for p := range phases {
		fmt.Fprintf(out, "%10s", p)
	}
	fmt.Fprintf(out, "%10s\n%s\n", "all", strings.Repeat("-", 32+10*(int(phases)+1)))
	fault, phase = math.MaxInt, math.MaxInt
	var columns [phases]int
	for _, name := range allFaults() {
		row := t.hits[name]
		if row == nil {
			row = new([phases]int)
		}
		fmt.Fprintf(out, "%-32s", name)
		sum := 0
		for p, n := range row {
			fmt.Fprintf(out, "%10d", n)
			columns[p] += n
			sum += n
		}
		fmt.Fprintf(out, "%10d\n", sum)
		fault = min(fault, sum)
	}
	fmt.Fprintf(out, "%-32s", "all")
	for _, n := range columns {
		fmt.Fprintf(out, "%10d", n)
		phase = min(phase, n)
	}
	fmt.Fprintln(out)
	return fault, phase
}
