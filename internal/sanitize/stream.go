package sanitize

import "strings"

// Stream cleans a text that arrives in deltas, such as the answer of an agent.
// One Stream serves one output item; the zero Stream is ready. Newline and tab
// pass. The CR of a CRLF is dropped, also when the two come apart; any other CR
// is shown. A character or an escape that is cut in two comes out as if it had
// come whole: what Write and Flush return, put together, does not depend on
// where the deltas were cut.
//
// A Stream holds back only what it cannot yet judge: a CR at the end, the start
// of a character, a first surrogate half, the tags of a flag emoji; never more
// than 64 bytes, and never ordinary text. It is not safe for concurrent use.
type Stream struct {
	f    filter
	held string
}

// Write takes the next delta and returns what can be printed by now. A delta
// with nothing to show is returned without a copy.
func (s *Stream) Write(delta string) Text {
	if s.held != "" {
		delta = s.held + delta
	}
	out, used := s.f.run(delta, false)
	// A clone, so that a few bytes do not keep a large delta in memory.
	s.held = strings.Clone(delta[used:])
	return Text{out}
}

// Flush ends the item: it returns what was held back, in visible form where it
// never became whole, and makes the Stream ready for another item.
func (s *Stream) Flush() Text {
	out, _ := s.f.run(s.held, true)
	*s = Stream{}
	return Text{out}
}

// Block cleans a text of any number of lines that is there as a whole, by the
// rules of [Stream]. Cleaning a clean text again changes nothing.
func Block(s string) Text {
	var f filter
	out, _ := f.run(s, true)
	return Text{out}
}
