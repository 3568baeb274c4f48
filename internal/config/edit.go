package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// text is a file as lines. It is changed line by line, so that comments, order
// and whatever a newer version wrote stay as they were. Where the lines are not
// what they seem to be (tables within lines, texts over several lines), the
// change comes out wrong; the caller compares what it says with what it should,
// and does not write it then.
type text struct {
	lines []string // without their ends
	eol   string
}

const heading = `# Contexts of aipctl: daemons by name. See aipctl context --help.
# No token belongs here; token_file is the path of an owner-only file with one.
version = 1
`

func newText(content []byte) *text {
	t := &text{eol: "\n"}
	s := string(content)
	if strings.TrimSpace(s) == "" {
		s = heading
	}
	if strings.Contains(s, "\r\n") {
		t.eol = "\r\n"
	}
	for line := range strings.Lines(s) {
		t.lines = append(t.lines, strings.TrimRight(line, "\r\n"))
	}
	return t
}

func (t *text) bytes() []byte { return []byte(strings.Join(t.lines, t.eol) + t.eol) }

// The expressions are made when a file is changed, and not at every start.
var (
	tableLine = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^\s*\[([^\[\]]+)\]\s*(?:#.*)?$`) })
	// plainValue is a key with a text in one line: what is before the text, the
	// text, and what is behind it.
	plainValue = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^(\s*[^=]*=\s*)("(?:[^"\\]|\\.)*"|'[^']*')(\s*(?:#.*)?)$`)
	})
)

// beginsTable reports whether a line is the head of some table.
func beginsTable(line string) bool { return strings.HasPrefix(strings.TrimLeft(line, " \t"), "[") }

// tableName returns the parts of the name in the head of a table, with dots
// between them; empty for a line that is none.
func tableName(line string) string {
	m := tableLine().FindStringSubmatch(line)
	if m == nil {
		return ""
	}
	parts := strings.Split(m[1], ".")
	for i, p := range parts {
		parts[i] = unquoteKey(p)
	}
	return strings.Join(parts, ".")
}

func unquoteKey(s string) string {
	s = strings.TrimSpace(s)
	if len(s) >= 2 && (s[0] == '"' || s[0] == '\'') && s[len(s)-1] == s[0] {
		return s[1 : len(s)-1]
	}
	return s
}

// keyOf returns the key of a line; empty where it has none.
func keyOf(line string) string {
	key, _, found := strings.Cut(line, "=")
	if !found || strings.HasPrefix(strings.TrimSpace(line), "#") {
		return ""
	}
	return unquoteKey(key)
}

// section finds the lines of a table, without its head: from, to. The table
// without a name is what stands before the first one. found is false where
// there is no such table; then from is where the next table would begin.
func (t *text) section(table string) (from, to int, found bool) {
	next := func(from int) int {
		for i := from; i < len(t.lines); i++ {
			if beginsTable(t.lines[i]) {
				return i
			}
		}
		return len(t.lines)
	}
	if table == "" {
		return 0, next(0), true
	}
	for i, line := range t.lines {
		if tableName(line) == table {
			return i + 1, next(i + 1), true
		}
	}
	return len(t.lines), len(t.lines), false
}

// set gives a key of a table a text; an empty one removes the key.
func (t *text) set(table, key, value string) {
	from, to, found := t.section(table)
	for i := from; i < to; i++ {
		switch {
		case keyOf(t.lines[i]) != key:
		case value == "":
			t.lines = slices.Delete(t.lines, i, i+1)
			return
		default:
			if m := plainValue().FindStringSubmatch(t.lines[i]); m != nil {
				t.lines[i] = m[1] + quote(value) + m[3]
			} else {
				t.lines[i] = key + " = " + quote(value)
			}
			return
		}
	}
	if value == "" {
		return
	}
	if !found {
		from = t.add(table)
		to = from
	}
	t.lines = slices.Insert(t.lines, t.end(from, to), key+" = "+quote(value))
}

// add puts an empty table at the end and returns the line behind its head.
func (t *text) add(table string) int {
	t.lines = t.lines[:t.lastWritten()]
	if len(t.lines) > 0 {
		t.lines = append(t.lines, "")
	}
	t.lines = append(t.lines, "["+table+"]")
	return len(t.lines)
}

// lastWritten is the number of lines without the empty ones at the end.
func (t *text) lastWritten() int {
	n := len(t.lines)
	for n > 0 && strings.TrimSpace(t.lines[n-1]) == "" {
		n--
	}
	return n
}

// end is where a key is added to the lines of a table: behind its last one that
// is neither empty nor a comment, which may belong to what follows.
func (t *text) end(from, to int) int {
	for i := to; i > from; i-- {
		if line := strings.TrimSpace(t.lines[i-1]); line != "" && line[0] != '#' {
			return i
		}
	}
	return from
}

// drop removes a table and those below it. Comments that may belong to the
// next table stay.
func (t *text) drop(table string) {
	for i := 0; i < len(t.lines); i++ {
		name := tableName(t.lines[i])
		if name != table && !strings.HasPrefix(name, table+".") {
			continue
		}
		to := i + 1
		for to < len(t.lines) && !beginsTable(t.lines[to]) {
			to++
		}
		to = t.end(i, to)
		if i > 0 && strings.TrimSpace(t.lines[i-1]) == "" && (to == len(t.lines) || strings.TrimSpace(t.lines[to]) == "") {
			i-- // one empty line goes with it
		}
		t.lines = slices.Delete(t.lines, i, to)
		i = max(i-1, -1)
	}
}

// quote writes a text as TOML: a path of Windows as it is read best, anything
// else with escapes.
func quote(s string) string {
	control := strings.ContainsFunc(s, func(r rune) bool { return r < 0x20 || r == 0x7f })
	if strings.Contains(s, `\`) && !strings.Contains(s, "'") && !control {
		return "'" + s + "'"
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r < 0x20 || r == 0x7f:
			fmt.Fprintf(&b, `\u%04X`, r)
		default:
			b.WriteRune(r)
		}
	}
	b.WriteByte('"')
	return b.String()
}
