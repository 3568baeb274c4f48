package cmd

import (
	"errors"
	"slices"
	"strings"
	"testing"
)

// aipctlLines finds the aipctl command lines in what a person would paste into
// a shell: several lines, pipes, assignments before a command, and commands in
// $(…). A variable stands for the value that its name asks for.
func aipctlLines(script string) ([][]string, error) {
	script = strings.ReplaceAll(script, "\\\n", " ")
	commands, err := splitShell(script)
	if err != nil {
		return nil, err
	}
	var out [][]string
	for _, words := range commands {
		for len(words) > 0 && isAssignment(words[0]) {
			words = words[1:]
		}
		words = unwrapped(words)
		if len(words) > 0 && words[0] == "aipctl" {
			out = append(out, words)
		}
	}
	return out, nil
}

// unwrapped takes away what runs aipctl in the place of the shell: the verb of a
// transcript, and go run from a checkout.
func unwrapped(words []string) []string {
	if len(words) > 2 && words[0] == "exits" {
		words = words[2:]
	}
	if len(words) > 2 && slices.Equal(words[:3], []string{"go", "run", "./cmd/aipctl"}) {
		words = append([]string{"aipctl"}, words[3:]...)
	}
	return words
}

func isAssignment(word string) bool {
	name, _, ok := strings.Cut(word, "=")
	return ok && name != "" && strings.Trim(name, "ABCDEFGHIJKLMNOPQRSTUVWXYZ_0123456789") == ""
}

// shellVariables are the values of variables in examples, by name.
var shellVariables = map[string]string{
	"AIP_URL": "http://127.0.0.1:8700", "AIP_TOKEN_FILE": "token", "AIP_CAPABILITY_ID": "cap:hermes_agent:lab:chat_stream", "AIP_ACTION_ID": "act_1",
}

// splitShell splits lines into commands and their words, as far as examples
// need it.
func splitShell(line string) ([][]string, error) {
	var (
		out   [][]string
		words []string
		word  strings.Builder
		began bool
	)
	endWord := func() {
		if began {
			words = append(words, word.String())
		}
		word.Reset()
		began = false
	}
	endCommand := func() {
		endWord()
		if len(words) > 0 {
			out = append(out, words)
		}
		words = nil
	}
	variable := func(s string) int { // of what follows a $; returns what it is long
		if strings.HasPrefix(s, "(") {
			end := strings.IndexByte(s, ')')
			if end < 0 {
				return -1
			}
			inner, err := splitShell(s[1:end])
			if err != nil {
				return -1
			}
			out = append(out, inner...)
			word.WriteString("substituted")
			return end + 1
		}
		n := 0
		for n < len(s) && (s[n] == '_' || s[n] >= 'A' && s[n] <= 'Z' || s[n] >= 'a' && s[n] <= 'z' || s[n] >= '0' && s[n] <= '9') {
			n++
		}
		if v, ok := shellVariables[s[:n]]; ok {
			word.WriteString(v)
		} else {
			word.WriteString("variable")
		}
		return n
	}
	for i := 0; i < len(line); i++ {
		switch c := line[i]; c {
		case ' ', '\t':
			endWord()
		case '|', ';', '&', '(', ')', '\n':
			endCommand()
		case '#':
			if began {
				word.WriteByte(c)
				break
			}
			for i+1 < len(line) && line[i+1] != '\n' {
				i++
			}
		case '>', '<':
			endWord()
			endCommand() // a file follows, which is a command to nobody
		case '\'':
			end := strings.IndexByte(line[i+1:], '\'')
			if end < 0 {
				return nil, errors.New("a quote does not end")
			}
			began = true
			word.WriteString(line[i+1 : i+1+end])
			i += end + 1
		case '"':
			began = true
			for i++; ; i++ {
				if i >= len(line) {
					return nil, errors.New("a quote does not end")
				}
				if line[i] == '"' {
					break
				}
				if line[i] == '\\' && i+1 < len(line) {
					i++
				} else if line[i] == '$' {
					n := variable(line[i+1:])
					if n < 0 {
						return nil, errors.New("a $( does not end")
					}
					i += n
					continue
				}
				word.WriteByte(line[i])
			}
		case '$':
			began = true
			n := variable(line[i+1:])
			if n < 0 {
				return nil, errors.New("a $( does not end")
			}
			i += n
		case '\\':
			if i+1 < len(line) {
				i++
				began = true
				word.WriteByte(line[i])
			}
		default:
			began = true
			word.WriteByte(c)
		}
	}
	endCommand()
	return out, nil
}

func TestExamplesAreSplitLikeAShellDoes(t *testing.T) {
	for script, want := range map[string]string{
		`aipctl action status act_1`:                     "aipctl action status act_1",
		"aipctl a \\\n  'b c' \"d e\"":                   "aipctl a b c d e",
		`jq . "$(aipctl state path)"`:                    "aipctl state path",
		`A=1 aipctl version | head -1`:                   "aipctl version",
		`aipctl action status "$AIP_URL" $AIP_ACTION_ID`: "aipctl action status http://127.0.0.1:8700 act_1",
		"ls; aipctl version >out # aipctl demo":          "aipctl version",
		"aipctl version\naipctl demo":                    "aipctl version\naipctl demo",
		"source <(aipctl version)":                       "aipctl version",
		"go run ./cmd/aipctl demo --list":                "aipctl demo --list",
		"exits 7 aipctl version":                         "aipctl version",
		"go run ./cmd/other demo":                        "",
		"echo hi":                                        "",
	} {
		lines, err := aipctlLines(script)
		var got []string
		for _, l := range lines {
			got = append(got, strings.Join(l, " "))
		}
		if err != nil || strings.Join(got, "\n") != want {
			t.Errorf("%q gives %q, %v, want %q", script, got, err, want)
		}
	}
	for _, script := range []string{`aipctl 'a`, `aipctl "a`, `aipctl $(a`} {
		if _, err := aipctlLines(script); err == nil {
			t.Errorf("%q was taken", script)
		}
	}
}
