package render

import (
	"time"

	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
)

const (
	// beat is how long stderr may be silent before a heartbeat.
	beat = time.Minute
	// silence is how long nothing new may come before the status says so.
	silence = 10 * time.Second
)

// How long a line of text may stand unfinished before the status line is shown
// below it, where the next piece of text then begins. Trouble is worth more
// than the line, a pause of the provider is not.
const (
	patience        = 15 * time.Second
	patienceTrouble = 2 * time.Second
)

// status is the state of the client's own work, as a line that is redrawn.
type status struct {
	con   *console
	now   func() time.Time
	tools func(now time.Time) sanitize.Text // those that run; nil and an empty text are none
	state record.State
	set   bool
	start time.Time
	since time.Time // of the state
	fresh time.Time // when something new last came
	flows bool      // chunks have come in this state
}

// begin starts the clock, once.
func (s *status) begin() {
	if s.start.IsZero() {
		s.start = s.now()
		s.fresh = s.start
	}
}

// news says that something came.
func (s *status) news() { s.fresh = s.now() }

// change takes a state; it reports false where it is the one before.
func (s *status) change(v record.State) bool {
	s.begin()
	v.Head = record.Head{}
	if s.set && v == s.state {
		return false
	}
	s.state, s.set = v, true
	s.since = s.now()
	s.fresh, s.flows = s.since, false
	return true
}

// draw shows the time since the run began, which even the narrowest line
// holds, and the state as it is now.
func (s *status) draw(now time.Time) {
	if s.set {
		s.con.draw(sanitize.Format("%s %s", elapsed(now.Sub(s.start)), s.line(now)), now, s.patience())
	}
}

// line says what the state is at a time: how long it is still waited, how long
// nothing came, which tools run.
func (s *status) line(now time.Time) sanitize.Text {
	v := s.state
	if v.WaitMS > 0 {
		left := time.Duration(v.WaitMS)*time.Millisecond - now.Sub(s.since)
		// Rounded up, as a countdown is.
		v.WaitMS = max(0, (left + time.Second - 1).Truncate(time.Second).Milliseconds())
	}
	t := words(v)
	if s.flows && (v.State == record.StateSubmitted || v.State == record.StateFollowing) {
		t = sanitize.Static("streaming")
	}
	if s.tools != nil {
		if run := s.tools(now); !run.IsEmpty() {
			return sanitize.Format("%s; %s", t, run)
		}
	}
	if quiet := now.Sub(s.fresh); quiet >= silence && listening(v.State) {
		t = sanitize.Format("%s, nothing new for %s", t, elapsed(quiet))
	}
	return t
}

// listening reports whether a stream or an answer is waited for.
func listening(state string) bool {
	switch state {
	case record.StateFollowing, record.StateSubmitted, record.StateReplied:
		return true
	}
	return false
}

// ending reports whether a run is about to end.
func ending(state string) bool {
	return state == record.StateDraining || state == record.StateSettling
}

func (s *status) patience() time.Duration {
	if listening(s.state.State) {
		return patience
	}
	return patienceTrouble
}

// words says a state in one line. The names are those of the records; a person
// is told what they mean.
func words(v record.State) sanitize.Text {
	action := sanitize.LineMax(v.Action, nameMax)
	t := sanitize.LineMax(v.State, nameMax)
	switch v.State {
	case record.StateFollowing:
		if v.Attempt > 1 {
			t = sanitize.Static("following again")
		}
	case record.StateSubmitted:
		t = sanitize.Static("submitted, waiting for the answer")
	case record.StateReconnecting:
		if v.Attempt > 0 {
			t = sanitize.Format("%s, attempt %s", t, sanitize.Int(int64(v.Attempt)))
		}
	case record.StateReplied:
		t = sanitize.Static("answered, reading the rest")
		if v.Action != "" {
			t = sanitize.Format("answered (%s), reading the rest", action)
		}
		v.Action = ""
	case record.StateUncertain:
		t = sanitize.Static("no answer to the submit, reading on")
	case record.StateDraining:
		t = sanitize.Static("reading what is left")
	case record.StateSettling:
		t = sanitize.Static("reading the result")
	case record.StateRetrying:
		t = sanitize.Format("reading once more, try %s", sanitize.Int(int64(v.Attempt)))
	case record.StateApproval:
		t = sanitize.Static("waiting for an approval")
	}
	if v.Action != "" {
		t = sanitize.Format("%s, action %s", t, action)
	}
	if v.WaitMS > 0 {
		t = sanitize.Format("%s in %s", t, wait(v.WaitMS))
	}
	if v.Reason != "" {
		t = sanitize.Format("%s: %s", t, sanitize.LineMax(v.Reason, reasonMax))
	}
	return t
}

// wait shows how long is waited; whole seconds need no tenths.
func wait(ms int64) sanitize.Text {
	d := time.Duration(ms) * time.Millisecond
	if d%time.Second == 0 {
		return elapsed(d)
	}
	return sanitize.Duration(d)
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
