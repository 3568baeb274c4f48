package render

import (
	"os/exec"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/sanitize"
)

func TestQuotePOSIX(t *testing.T) {
	for arg, want := range map[string]string{
		"":                        `''`,
		"act_1-2.3":               `act_1-2.3`,
		"http://127.0.0.1:8080/a": `http://127.0.0.1:8080/a`,
		"http://h/?a=1&b=2":       `'http://h/?a=1&b=2'`,
		"two words":               `'two words'`,
		"it's":                    `'it'\''s'`,
		"$HOME `id` \\":           "'$HOME `id` \\'",
		"~/file":                  `'~/file'`,
		"=cat":                    `'=cat'`,
		"caf\u00e9":               "'caf\u00e9'",
		"line\nend":               `$'line\012end'`,
		"\x1b]0;x\a'\\":           `$'\033]0;x\007\'\\'`,
		"\u202e":                  `$'\342\200\256'`,
		"\xff":                    `$'\377'`,
	} {
		if got := quotePOSIX(arg); got != want {
			t.Errorf("quotePOSIX(%q) = %s, want %s", arg, got, want)
		}
	}
}

// A shell takes the printed command apart into the words it was made of.
func TestCommandComesBackFromAShell(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("this system has no bash")
	}
	argv := append(hostileArgs(t), "", "plain", "it's", "=x", "*", "-n", "a\tb", "$(exit 1)")
	line := "printf '%s\\0' "
	for _, arg := range argv {
		q := quotePOSIX(arg)
		if sanitize.Line(q).String() != q {
			t.Errorf("%q is quoted as %q, which cannot be printed", arg, q)
		}
		line += " " + q
	}
	out, err := exec.Command(bash, "-c", line).Output()
	if err != nil {
		t.Fatal(err)
	}
	got := strings.Split(strings.TrimSuffix(string(out), "\x00"), "\x00")
	if !slices.Equal(got, argv) {
		t.Errorf("the shell reads %q, want %q", got, argv)
	}
}

// hostileArgs are the hostile strings that can be an argument at all.
func hostileArgs(t *testing.T) []string {
	var args []string
	for _, s := range hostile(t) {
		args = append(args, strings.ReplaceAll(s, "\x00", ""))
	}
	return args
}

func TestQuoteWindows(t *testing.T) {
	for arg, want := range map[string]string{
		"":                  `""`,
		"act_1":             `act_1`,
		`C:\Users\x`:        `C:\Users\x`,
		`C:\my files\`:      `"C:\my files\\"`,
		"http://h/?a=1&b=2": `"http://h/?a=1&b=2"`,
		`say "hi"`:          `"say \"hi\""`,
		`a b\"c`:            `"a b\\\"c"`,
		"@file":             `"@file"`, // a splat in PowerShell
	} {
		if got := quoteWindows(arg); got != want {
			t.Errorf("quoteWindows(%q) = %s, want %s", arg, got, want)
		}
	}
}

func TestEachSystemHasItsQuotes(t *testing.T) {
	for goos, want := range map[string]string{"linux": "'a b'", "darwin": "'a b'", "windows": `"a b"`} {
		if got := quoteFor(goos)("a b"); got != want {
			t.Errorf("%s: %s, want %s", goos, got, want)
		}
	}
}
