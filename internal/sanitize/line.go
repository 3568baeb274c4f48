package sanitize

import (
	"slices"
	"unicode/utf8"

	"github.com/clipperhouse/uax29/v2/graphemes"
)

// Line cleans a field that is printed within one line: a name, an id, a label,
// a code, an error message. Newline, CR and tab are shown like every control.
// Given the String of a Text it makes a one-line Text of it.
func Line(s string) Text {
	f := filter{line: true}
	out, _ := f.run(s, true)
	return Text{out}
}

const ellipsis = "…"

// LineMax is [Line] cut to at most so many runes, where the ellipsis that marks
// the cut counts as one. It cuts between what a reader takes for characters
// (grapheme clusters, UAX #29), never within a combining sequence, an emoji or
// the visible form of a control; so a single cluster that is too long leaves the
// ellipsis alone. With runes below 1 the result is empty.
func LineMax(s string, runes int) Text {
	if runes < 1 {
		return Text{}
	}
	if len(s) <= runes { // the usual case, which needs no working space
		if t := Line(s); utf8.RuneCountInString(t.s) <= runes {
			return t
		}
	}
	f := filter{line: true}
	var buf []byte
	count := 0
	var ends []int // ascending offsets at which buf may be cut to leave room
	for s != "" {
		u := f.next(s, true)
		start := len(buf)
		buf = u.append(buf, s)
		s = s[u.size:]
		if count += utf8.RuneCount(buf[start:]); count > runes {
			return Text{string(buf[:lastCut(buf, ends)]) + ellipsis}
		}
		if count < runes {
			ends = append(ends, len(buf))
		}
	}
	return Text{string(buf)}
}

// lastCut returns the greatest of the ascending offsets that is the end of a grapheme
// cluster of buf, or 0.
func lastCut(buf []byte, offsets []int) int {
	cut := 0
	for g := graphemes.FromBytes(buf); g.Next(); {
		if _, found := slices.BinarySearch(offsets, g.End()); found {
			cut = g.End()
		}
	}
	return cut
}
