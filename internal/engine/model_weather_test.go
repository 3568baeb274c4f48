package engine_test

import (
	"slices"
	"time"

	"github.com/aipctl/aipctl/internal/aiptest/faults"
)

// arm puts the schedule into the world.
func (w *world) arm() {
	w.plan.strikes = slices.Clone(w.plan.strikes)
	for _, f := range slices.Concat(w.plan.tampers, w.plan.lies) {
		f(w)
	}
	for _, f := range w.plan.timed {
		f(w)
	}
	if w.plan.skew != 0 {
		w.daemon.Before = w.skewed(w.daemon.Before)
	}
}

// decide is the network's question about one exchange.
func (w *world) decide(x faults.Exchange) faults.Break {
	l := w.lifeOf(x.Client)
	if l != nil {
		_ = l.step(atRequest, func() error { return nil })
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.calm || l != nil && l.observes() {
		return faults.Break{}
	}
	hit := func(name string) func() {
		return func() {
			if x.Route == faults.Page && l != nil {
				l.mu.Lock()
				l.pageFail = true
				l.mu.Unlock()
			}
			w.hit(name, l)
		}
	}
	switch {
	case w.dark:
		return faults.Break{Kind: faults.Refuse, Hit: hit(fBothLost)}
	case w.outage:
		return faults.Break{Kind: faults.Instead, Handler: faults.Unavailable(0), Hit: hit(fOutage)}
	}
	for _, s := range w.plan.strikes {
		if s.route != x.Route || s.cursor && x.Cursor == "" {
			continue
		}
		s.seen++
		if s.seen-1 == s.nth {
			b := s.brk
			b.Hit = hit(s.name)
			return b
		}
	}
	return faults.Break{}
}

func (w *world) lifeOf(c *faults.Client) *life {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, l := range w.lives {
		if l.way == c {
			return l
		}
	}
	return nil
}

// darken takes the network away: every connection is reset, and none is
// obtained for a while.
func (w *world) darken(name string, d time.Duration) {
	w.mu.Lock()
	w.dark = true
	w.mu.Unlock()
	w.net.BreakAll(nil)
	w.hit(name, nil)
	w.at(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.dark = false
	})
}

// goDown lets the gateway answer everything with 503 for a while; midway, it
// also drops what was under way, and answers the open submit.
func (w *world) goDown(d time.Duration, midway bool) {
	w.mu.Lock()
	w.outage = true
	w.mu.Unlock()
	if midway && w.net.BreakAll(faults.Unavailable(0)) > 0 {
		w.hit(fOutage, nil)
	}
	w.at(d, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.outage = false
	})
}

// changeToken makes the gateway want another token; the file gets it too, or
// the gateway comes to its senses after a while.
func (w *world) changeToken(inFile bool, d time.Duration, drop bool) {
	w.mu.Lock()
	w.accepted = "second"
	w.mu.Unlock()
	if drop {
		w.net.BreakAll(nil)
	}
	name := fTokenRefused
	if inFile {
		name = fTokenChanged
	}
	w.hit(name, nil)
	w.at(min(d, 5*time.Second), func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if inFile {
			w.file = "second"
		} else {
			w.accepted = "first"
		}
	})
}
