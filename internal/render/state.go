package render

import (
	"time"

	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
)

// beat is how long stderr may be silent before a heartbeat.
const beat = time.Minute

// status is the state of the client's own work, as a line that is redrawn.
type status struct {
	con   *console
	now   func() time.Time
	state record.State
	set   bool
	start time.Time
}

// begin starts the clock, once.
func (s *status) begin() {
	if s.start.IsZero() {
		s.start = s.now()
	}
}

// change takes a state; it reports false where it is the one before.
func (s *status) change(v record.State) bool {
	s.begin()
	v.Head = record.Head{}
	if s.set && v == s.state {
		return false
	}
	s.state, s.set = v, true
	return true
}

// draw shows the state and the time since the run began.
func (s *status) draw(now time.Time) {
	if s.set {
		s.con.draw(sanitize.Format("%s, %s", s.words(), elapsed(now.Sub(s.start))))
	}
}

// words says the state in one line.
func (s *status) words() sanitize.Text {
	v := s.state
	t := sanitize.LineMax(v.State, nameMax)
	if v.Action != "" {
		t = sanitize.Format("%s, action %s", t, sanitize.LineMax(v.Action, nameMax))
	}
	if v.Attempt > 1 {
		t = sanitize.Format("%s, attempt %s", t, sanitize.Int(int64(v.Attempt)))
	}
	if v.WaitMS > 0 {
		t = sanitize.Format("%s in %s", t, millis(v.WaitMS))
	}
	if v.Reason != "" {
		t = sanitize.Format("%s: %s", t, sanitize.LineMax(v.Reason, reasonMax))
	}
	return t
}

// elapsed shows a running clock, which has no use for less than a second.
func elapsed(d time.Duration) sanitize.Text {
	if d < time.Minute {
		return sanitize.Format("%ss", sanitize.Int(int64(max(d, 0)/time.Second)))
	}
	return sanitize.Duration(d)
}

// millis shows a number of milliseconds.
func millis(ms int64) sanitize.Text {
	return sanitize.Duration(time.Duration(ms) * time.Millisecond)
}

// stamp shows a time as a log wants it.
func stamp(t time.Time) sanitize.Text {
	return sanitize.Line(t.UTC().Format("2006-01-02T15:04:05Z"))
}
