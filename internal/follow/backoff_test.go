package follow

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func constant(f float64) func() float64 { return func() float64 { return f } }

const almostOne = 1 - 1.0/(1<<53)

func TestBackoff(t *testing.T) {
	const (
		ms = time.Millisecond
		s  = time.Second
	)
	tests := []struct {
		rule   string
		jitter float64
		asked  []time.Duration // one for each attempt
		want   []time.Duration
	}{
		{"the floor holds where the jitter is none", 0, make([]time.Duration, 4), []time.Duration{250 * ms, 250 * ms, 250 * ms, 250 * ms}},
		{"the longest wait doubles up to the ceiling", almostOne, make([]time.Duration, 8), []time.Duration{500 * ms, 1 * s, 2 * s, 4 * s, 8 * s, 15 * s, 15 * s, 15 * s}},
		{"jitter spreads between floor and longest", 0.5, make([]time.Duration, 3), []time.Duration{375 * ms, 625 * ms, 1125 * ms}},
		{"a longer wish of the daemon is honoured", 0, []time.Duration{5 * s, 0, 7 * s}, []time.Duration{5 * s, 250 * ms, 7 * s}},
		{"a wish of a day is bounded to a minute", 0, []time.Duration{24 * time.Hour}, []time.Duration{60 * s}},
		{"a shorter wish does not shorten the wait", almostOne, []time.Duration{1 * ms, 100 * ms, 300 * ms}, []time.Duration{500 * ms, 1 * s, 2 * s}},
		{"a negative wish is none", 0, []time.Duration{-5 * s}, []time.Duration{250 * ms}},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			b := newBackoff(constant(tt.jitter))
			var got []time.Duration
			for _, asked := range tt.asked {
				got = append(got, b.next(asked).Round(ms))
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("waits (-want +got):\n%s", diff)
			}
		})
	}
}

func TestBackoffResets(t *testing.T) {
	b := newBackoff(constant(almostOne))
	for range 5 {
		b.next(0)
	}
	b.reset()
	if got := b.next(0).Round(time.Millisecond); got != 500*time.Millisecond {
		t.Errorf("after a reset the first wait is %s, want 500ms", got)
	}
}

// The attempts of a night must not turn a wait negative.
func TestBackoffNeverOverflows(t *testing.T) {
	b := newBackoff(constant(almostOne))
	for i := range 10_000 {
		if got := b.next(0); got < waitFloor || got > waitCeiling {
			t.Fatalf("attempt %d waits %s", i, got)
		}
	}
}

func TestBackoffIsRandomByDefault(t *testing.T) {
	b := newBackoff(nil)
	seen := map[time.Duration]bool{}
	for range 20 {
		seen[b.next(0)] = true
	}
	if len(seen) < 2 {
		t.Error("twenty waits are all the same: clients that lost one daemon would come back in step")
	}
}
