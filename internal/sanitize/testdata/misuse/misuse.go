// Package misuse holds the ways in which a caller might try to print a string
// that was not cleaned. It is type-checked by a test and never built.
package misuse

import "github.com/aipctl/aipctl/internal/sanitize"

func allowed(fromOutside string) []sanitize.Text {
	const ours = "ours"
	return []sanitize.Text{
		sanitize.Static(ours),
		sanitize.Static("a" + ours),
		sanitize.Line(fromOutside),
		sanitize.Block(fromOutside),
		sanitize.Format("%s", sanitize.Line(fromOutside)),
		sanitize.Join(", ", sanitize.Line(fromOutside)),
	}
}

func refused(fromOutside string, t sanitize.Text) {
	sanitize.Static(fromOutside)          // want: cannot use fromOutside
	sanitize.Static("a" + fromOutside)    // want: cannot use "a" + fromOutside
	sanitize.Format(fromOutside)          // want: cannot use fromOutside
	sanitize.Format("%s", fromOutside)    // want: cannot use fromOutside
	sanitize.Join(fromOutside, t)         // want: cannot use fromOutside
	sanitize.Static(t.String())           // want: cannot use t.String()
	_ = sanitize.literal(fromOutside)     // want: not exported
	_ = sanitize.Text(fromOutside)        // want: cannot convert fromOutside
	_ = sanitize.Text{fromOutside}        // want: implicit assignment to unexported field
	_ = sanitize.Text{s: fromOutside}     // want: cannot refer to unexported field s
	_ = struct{ s string }{fromOutside}   // a look-alike is harmless
	t = sanitize.Text(struct{ s string }{ // want: cannot convert
		fromOutside,
	})
	t.s = fromOutside // want: unexported
}
