package render

import (
	"fmt"
	"runtime"
	"strings"

	"github.com/aipctl/aipctl/internal/sanitize"
)

// quote quotes a word for the shells of this system.
var quote = quoteFor(runtime.GOOS)

func quoteFor(goos string) func(string) string {
	if goos == "windows" {
		return quoteWindows
	}
	return quotePOSIX
}

// Command writes argv so that a person can paste it into a shell. It is never
// cut: a shortened command is another one.
func Command(argv []string) sanitize.Text {
	var words []sanitize.Text
	for _, arg := range argv {
		words = append(words, sanitize.Line(quote(arg)))
	}
	return sanitize.Join(" ", words...)
}

// plainWord reports whether a shell takes the word as it is.
func plainWord(arg, special string) bool {
	if arg == "" {
		return false
	}
	for _, c := range []byte(arg) {
		switch {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z', c >= '0' && c <= '9':
		case strings.IndexByte("%+,-./:=@_"+special, c) >= 0:
		default:
			return false
		}
	}
	return true
}

// quotePOSIX quotes a word for sh. What may not be printed is written in the
// dollar form, which POSIX has since 2024 and the usual shells had before.
func quotePOSIX(arg string) string {
	switch {
	case plainWord(arg, "") && arg[0] != '=': // zsh looks for a command behind it
		return arg
	case sanitize.Line(arg).String() == arg:
		return "'" + strings.ReplaceAll(arg, "'", `'\''`) + "'"
	}
	var b strings.Builder
	b.WriteString("$'")
	for _, c := range []byte(arg) {
		switch {
		case c == '\'' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c >= 0x20 && c < 0x7f:
			b.WriteByte(c)
		default:
			fmt.Fprintf(&b, `\%03o`, c)
		}
	}
	return b.String() + "'"
}

// quoteWindows quotes a word for cmd and PowerShell, as far as both agree, by
// the rules by which a program there takes its command line apart.
func quoteWindows(arg string) string {
	if plainWord(arg, `\`) && !strings.HasPrefix(arg, "@") {
		return arg
	}
	var b strings.Builder
	b.WriteByte('"')
	slashes := 0
	for _, c := range []byte(arg) {
		switch c {
		case '\\':
			slashes++
		case '"':
			b.WriteString(strings.Repeat(`\`, slashes+1))
			slashes = 0
		default:
			slashes = 0
		}
		b.WriteByte(c)
	}
	return b.String() + strings.Repeat(`\`, slashes) + `"`
}
