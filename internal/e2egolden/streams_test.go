package e2egolden_test

import "testing"

// TestStreams comes back to each recorded action that has ended, in each form
// of output. Nothing is submitted on the way.
func TestStreams(t *testing.T) {
	for _, name := range namesOf(t, "streams", ".jsonl") {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := loadGolden(t, name)
			k := keep(t, name, g.Operation)
			g.compareText(t, newWorld(t).run(k.come("-o", "text")...))
			g.compareDocument(t, newWorld(t).run(k.come("-o", "json")...))
			g.compareLines(t, newWorld(t).run(k.come("-o", "jsonl")...))
			if n := k.submits(); n != 0 {
				t.Errorf("%d requests were no reads", n)
			}
		})
	}
}
