package config

import (
	"strings"
	"testing"
)

// script changes a text as the lines of a test say.
func script(t *testing.T, x *text, steps string) {
	t.Helper()
	for step := range strings.SplitSeq(steps, "; ") {
		words := strings.SplitN(step, " ", 4)
		switch words[0] {
		case "set":
			x.set(strings.Trim(words[1], "-"), words[2], words[3])
		case "unset":
			x.set(strings.Trim(words[1], "-"), words[2], "")
		case "drop":
			x.drop(words[1])
		default:
			t.Fatalf("no step %q", step)
		}
	}
}

func TestEdit(t *testing.T) {
	const two = "# mine\nversion = 1\ncurrent = \"a\" # now\n\n# the lab\n[contexts.a]\nurl = \"http://a\"  # old\nfuture = [\n  1,\n]\n\n# of work\n[ contexts . 'b' ]\nurl = 'http://b'\n"
	for _, tt := range []struct{ rule, before, steps, after string }{
		{"an empty file gets a heading", "", "set contexts.a url http://a", heading + "\n[contexts.a]\nurl = \"http://a\"\n"},
		{"a value is changed in its place, and its comment stays", two, "set contexts.a url http://x", strings.Replace(two, `"http://a"`, `"http://x"`, 1)},
		{"a table may be spelled with blanks and quotes", two, "set contexts.b url http://x", strings.Replace(two, `'http://b'`, `"http://x"`, 1)},
		{"a key is added behind the last, before the comment of the next table", two, "set contexts.a tenant t", strings.Replace(two, "]\n\n# of work", "]\ntenant = \"t\"\n\n# of work", 1)},
		{"a key is removed with its line", two, "unset contexts.a url", strings.Replace(two, "url = \"http://a\"  # old\n", "", 1)},
		{"a key that is not there is removed by nothing", two, "unset contexts.b tenant; unset contexts.c url", two},
		{"a key of no table", two, "set - current b", strings.Replace(two, `"a" # now`, `"b" # now`, 1)},
		{"a key of no table is added before the first one", "[contexts.a]\nurl = \"u\"\n", "set - current a", "current = \"a\"\n[contexts.a]\nurl = \"u\"\n"},
		{"a table goes, the comment of the next one stays", two, "drop contexts.a", "# mine\nversion = 1\ncurrent = \"a\" # now\n\n# the lab\n\n# of work\n[ contexts . 'b' ]\nurl = 'http://b'\n"},
		{"the last table goes", two, "drop contexts.b", strings.Split(two, "[ contexts")[0]},
		{"tables below it go too, and others that begin alike stay", "[contexts.a]\nurl = 'u'\n[contexts.a.more]\nx = 1\n[contexts.ab]\nurl = 'v'\n", "drop contexts.a", "[contexts.ab]\nurl = 'v'\n"},
		{"a commented key is none", "[contexts.a]\n# url = 'u'\n", "set contexts.a url v", "[contexts.a]\nurl = \"v\"\n# url = 'u'\n"},
		{"line ends of Windows stay", "[contexts.a]\r\nurl = 'u'\r\n", "set contexts.a tenant t", "[contexts.a]\r\nurl = 'u'\r\ntenant = \"t\"\r\n"},
		{"a last line without an end gets one", "[contexts.a]\nurl = 'u'", "set contexts.b url v", "[contexts.a]\nurl = 'u'\n\n[contexts.b]\nurl = \"v\"\n"},
		{"a path of Windows needs no escapes", "[contexts.a]\n", `set contexts.a token_file C:\t`, "[contexts.a]\ntoken_file = 'C:\\t'\n"},
		{"quotes and backslashes", "[contexts.a]\n", `set contexts.a token_file /a"b\c'd`, "[contexts.a]\ntoken_file = \"/a\\\"b\\\\c'd\"\n"},
		{"control characters", "[contexts.a]\n", "set contexts.a token_file /a\x1bb\nc\u0085", "[contexts.a]\ntoken_file = \"/a\\u001Bb\\u000Ac\u0085\"\n"},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			x := newText([]byte(tt.before))
			script(t, x, tt.steps)
			if got := string(x.bytes()); got != tt.after {
				t.Errorf("got\n%s\nwant\n%s", got, tt.after)
			}
		})
	}
}
