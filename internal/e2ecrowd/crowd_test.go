//go:build unix

package e2ecrowd

import (
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// crowd is a number of processes, some of which are killed when the daemon has
// been asked so and so often.
type crowd struct {
	rng *rand.Rand

	mu    sync.Mutex
	all   []*process
	dying map[*process]bool
	left  []int // how many requests there have to be for the next one to die, sorted
	asked int
}

// note counts a request and kills whoever is due. It is called by the daemon
// before the request is answered, so the crowd is in the middle of its work.
func (c *crowd) note(string, *http.Request) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	for len(c.left) > 0 && c.left[0] <= c.asked {
		var alive []*process
		for _, p := range c.all {
			if p.alive() && !c.dying[p] {
				alive = append(alive, p)
			}
		}
		if len(alive) == 0 {
			return
		}
		c.left = c.left[1:]
		victim := alive[c.rng.IntN(len(alive))]
		c.dying[victim] = true
		_ = victim.cmd.Process.Kill() // it may have been faster
	}
}

func (c *crowd) join(p *process) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.all = append(c.all, p)
}

// A crowd of calls finds no state folder. More than a tenth of it is killed on the way,
// and one more while it holds the lock that all the others want.
func TestCrowdOnANewStateFolder(t *testing.T) {
	t.Parallel()
	size := *crowdSize
	dying := max(size*3/20, 4) // some end before the signal reaches them
	c := &crowd{rng: chance(t), dying: map[*process]bool{}}
	// A call asks three times: follow, submit, and a page at the end.
	for range dying - 1 {
		c.left = append(c.left, 1+c.rng.IntN(3*(size-dying)))
	}
	slices.Sort(c.left)
	d := newDaemon(t, c.note)
	h := d.newHome()

	var holder *process
	for i := range size {
		if i == size/2 {
			holder = h.launch(h.command("aipctl-dying", "action", "call", d.url, short, "--prompt", "x"))
			continue
		}
		c.join(h.start("action", "call", d.url, short, "--prompt", "x"))
	}
	if got := holder.wait(); got.code != killed || got.out != lastWords {
		t.Errorf("no process was killed with the lock in its hand: %s", got)
	}

	settled, dead := 0, 1
	var text string
	for i, p := range c.all {
		got := p.wait()
		if strings.Contains(got.stderr, "has held the lock") {
			t.Errorf("process %d waited in vain for the lock: %s", i, got)
		}
		switch got.code {
		case killed:
			dead++
			continue
		case 0:
			settled++
		default:
			t.Errorf("process %d did not settle: %s", i, got)
		}
		if strings.Contains(got.stderr, "state file") {
			t.Errorf("process %d speaks of trouble with the state file: %s", i, got)
		}
		if text == "" {
			text = got.out
		}
		if got.out != text || text == "" {
			t.Errorf("process %d wrote %q, another one %q", i, got.out, text)
		}
	}
	// In a small crowd all victims may end before the signal reaches them.
	if size >= 100 && dead < size/10 || settled != size-dead {
		t.Errorf("of %d processes %d were killed and %d settled; about %d were to die", size, dead, settled, dying)
	}
	h.wantSound()
	d.wantKept(h)
	d.wantOnce(slices.Compact(slices.Sorted(slices.Values(d.srv.Submits())))...)
	if n := len(h.ids("intent")); n < len(d.srv.Submits()) || n > size {
		t.Errorf("%d intents, %d submits, %d processes", n, len(d.srv.Submits()), size)
	}
	if n := len(h.ids("settled")); n < settled {
		t.Errorf("%d processes settled, and %d verdicts are recorded", settled, n)
	}
	fi, err := os.Stat(h.stateFile())
	if err != nil || fi.Mode().Perm() != 0o600 {
		t.Errorf("the state file: %v %v", fi, err)
	}
	if fi, err = os.Stat(filepath.Dir(h.stateFile())); err != nil || fi.Mode().Perm() != 0o700 {
		t.Errorf("the state folder: %v %v", fi, err)
	}
	t.Logf("%d processes: %d killed, one of them with the lock; %d settled, %d submits, %d intents", size, dead, settled, len(d.srv.Submits()), len(h.ids("intent")))
}
