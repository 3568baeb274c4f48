// Package sanitize holds the one type of text that may be printed. What an
// agent, a daemon or a provider sends is hostile until it has been through
// here: it may clear the screen, write the clipboard, overwrite FAILED with
// PASSED, turn the reading order around or hide words.
//
// Invariant: every [Text] is valid UTF-8 and holds no C0 control but newline
// and tab, no DEL, no C1 control, no line or paragraph separator, no
// bidirectional embedding, override or isolate, and none of the invisible
// characters listed at hidden. A Text made by [Line] or [LineMax] holds no
// newline and no tab either. Only this package can make a Text from a string
// that is not a constant, and each way to do so cleans it, so a printing
// function that takes Text cannot be handed anything raw.
//
// What is not printed is shown, never dropped, so that nothing vanishes
// silently: \n \r \t where they may not stand, \x1b for the other C0 controls
// and DEL, \u009b up to U+FFFF, \u{e0041} above, and \xff for a byte that is
// not UTF-8 (always 80 or more, so the two \x forms never meet). A backslash in
// the text itself is left alone, since escaping it would spoil code, paths and
// patterns. The price is that a shown \x1b looks the same as those four
// characters typed out. That is safe, for neither reaches a terminal as a
// control; a program that must tell them apart reads the JSON output.
package sanitize

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Text is text that is safe to print to a terminal, a log or a pipe. The zero
// Text is empty. Text is for people: JSON output carries the original strings.
type Text struct{ s string }

// String returns the text as it is to be printed.
func (t Text) String() string { return t.s }

// Len returns the length in bytes of UTF-8, not in runes or columns.
func (t Text) Len() int { return len(t.s) }

// IsEmpty reports whether there is nothing to print.
func (t Text) IsEmpty() bool { return t.s == "" }

// literal is what the constant arguments below are typed as. Another package
// cannot name it, so it can pass an untyped constant of its own source and
// nothing else: a string that came from outside does not compile.
type literal string

// Static makes a Text of a constant of our own code. It is cleaned like any
// other, so a colour or cursor sequence cannot get into a Text this way either.
func Static(s literal) Text { return Block(string(s)) }

// Format puts args in place of the %s verbs of format, in order; %% stands for
// a percent sign and there are no other verbs. A mistake in format shows in the
// output in the manner of package fmt: %!s(MISSING), %!d(BADVERB), %!(NOVERB),
// %!(EXTRA).
func Format(format literal, args ...Text) Text {
	rest := Static(format).s
	var b strings.Builder
	for {
		before, after, found := strings.Cut(rest, "%")
		b.WriteString(before)
		if !found {
			break
		}
		switch {
		case strings.HasPrefix(after, "%"):
			b.WriteByte('%')
			rest = after[1:]
		case after == "":
			b.WriteString("%!(NOVERB)")
			rest = ""
		case after[0] != 's':
			_, size := utf8.DecodeRuneInString(after)
			fmt.Fprintf(&b, "%%!%s(BADVERB)", after[:size])
			rest = after[size:]
		case len(args) == 0:
			b.WriteString("%!s(MISSING)")
			rest = after[1:]
		default:
			b.WriteString(args[0].s)
			args, rest = args[1:], after[1:]
		}
	}
	if len(args) > 0 {
		b.WriteString("%!(EXTRA)")
	}
	return Text{b.String()}
}

// Join puts the parts one after the other with sep between them.
func Join(sep literal, parts ...Text) Text {
	if len(parts) == 0 {
		return Text{}
	}
	clean := Static(sep).s
	size := len(clean) * (len(parts) - 1)
	for _, p := range parts {
		size += len(p.s)
	}
	var b strings.Builder
	b.Grow(size)
	for i, p := range parts {
		if i > 0 {
			b.WriteString(clean)
		}
		b.WriteString(p.s)
	}
	return Text{b.String()}
}

// Int writes n in decimal.
func Int(n int64) Text { return Text{strconv.FormatInt(n, 10)} }

// Uint writes n in decimal.
func Uint(n uint64) Text { return Text{strconv.FormatUint(n, 10)} }

// Duration writes d in a short form: 0s, <1ms, 350ms, 1.2s, 2m03s, 1h02m. It is
// cut and not rounded, so that a running clock never shows more time than has
// passed and 59.99s never reads 60.0s. Hours go on counting past a day.
func Duration(d time.Duration) Text {
	if d < 0 {
		// The lowest duration has no positive counterpart; a nanosecond
		// does not show in hours.
		return Text{"-" + Duration(max(-d, -(d+1))).s}
	}
	switch {
	case d == 0:
		return Text{"0s"}
	case d < time.Millisecond:
		return Text{"<1ms"}
	case d < time.Second:
		return Text{fmt.Sprintf("%dms", d/time.Millisecond)}
	case d < time.Minute:
		tenths := d / (100 * time.Millisecond)
		return Text{fmt.Sprintf("%d.%ds", tenths/10, tenths%10)}
	case d < time.Hour:
		return Text{fmt.Sprintf("%dm%02ds", d/time.Minute, d%time.Minute/time.Second)}
	default:
		return Text{fmt.Sprintf("%dh%02dm", d/time.Hour, d%time.Hour/time.Minute)}
	}
}
