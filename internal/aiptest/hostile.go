package aiptest

import (
	"bytes"
	"encoding/hex"
	"encoding/json"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"unicode/utf8"
)

// A HostileText is a string that nobody should have to see raw.
type HostileText struct {
	// Bytes are the string as it may stand in an argument or a file name:
	// generalised UTF-8, or none at all.
	Bytes string
	// JSON is the string as a peer may write it, quotes included. It holds
	// escapes for halves of characters, and raw bytes where Bytes is no UTF-8.
	JSON string
	// Decoded is what a reader of JSON makes of it: U+FFFD for each half of a
	// character and for each byte that is none.
	Decoded string
}

// Hostile returns the strings of testdata/hostile.jsonl and, with bytes, those
// of testdata/hostile.hex.
func Hostile(t testing.TB, withBytes bool) []HostileText {
	t.Helper()
	var all []HostileText
	for _, line := range lines(string(readData(t, "hostile.jsonl"))) {
		h := HostileText{JSON: line}
		if err := json.Unmarshal([]byte(line), &h.Decoded); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		h.Bytes = generalised(t, line)
		all = append(all, h)
	}
	if withBytes {
		for _, line := range lines(string(readData(t, "hostile.hex"))) {
			raw, err := hex.DecodeString(line)
			if err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			all = append(all, HostileText{Bytes: string(raw), JSON: `"` + string(raw) + `"`, Decoded: string(bytes.Runes(raw))})
		}
	}
	if len(all) == 0 {
		t.Fatal("there are no hostile strings")
	}
	return all
}

func readData(t testing.TB, name string) []byte {
	t.Helper()
	src, err := os.ReadFile(Testdata(t, name))
	if err != nil {
		t.Fatal(err)
	}
	return src
}

// half is an escape of half a character, which no other stands beside.
var half = regexp.MustCompile(`\\u([dD][89a-fA-F][0-9a-fA-F]{2})`)

// generalised decodes a JSON string and keeps halves of characters, in three
// bytes each.
func generalised(t testing.TB, literal string) string {
	t.Helper()
	var halves []string
	// Pairs stay; each half gives its place to a character that no other has.
	const place = "\ue000"
	kept := regexp.MustCompile(`(?i)\\u(d[89ab][0-9a-f]{2})\\u(d[c-f][0-9a-f]{2})`).ReplaceAllStringFunc(literal, func(pair string) string {
		var s string
		if err := json.Unmarshal([]byte(`"`+pair+`"`), &s); err != nil {
			t.Fatal(err)
		}
		return s
	})
	kept = half.ReplaceAllStringFunc(kept, func(e string) string {
		n, err := strconv.ParseUint(e[2:], 16, 16)
		if err != nil {
			t.Fatal(err)
		}
		halves = append(halves, string([]byte{0xe0 | byte(n>>12), 0x80 | byte(n>>6&0x3f), 0x80 | byte(n&0x3f)}))
		return place
	})
	var s string
	if err := json.Unmarshal([]byte(kept), &s); err != nil {
		t.Fatalf("%s: %v", literal, err)
	}
	for _, h := range halves {
		s = strings.Replace(s, place, h, 1)
	}
	return s
}

// shown are the visible forms of what is not printed.
var shown = regexp.MustCompile(`\\(?:[nrt]|x[0-9a-f]{2}|u[0-9a-f]{4}|u\{[0-9a-f]+\})`)

// Unshow gives back what a text in visible forms stands for, so that a test can
// tell that something hostile was printed, and whole. It is no inverse where the
// text itself held such a form.
func Unshow(s string) string {
	return shown.ReplaceAllStringFunc(s, func(form string) string {
		switch form[1] {
		case 'n':
			return "\n"
		case 'r':
			return "\r"
		case 't':
			return "\t"
		}
		n, err := strconv.ParseUint(strings.Trim(form[2:], "{}"), 16, 32)
		switch {
		case err != nil:
			return form
		case form[1] == 'x':
			return string([]byte{byte(n)})
		case n >= 0xd800 && n < 0xe000:
			return string([]byte{0xe0 | byte(n>>12), 0x80 | byte(n>>6&0x3f), 0x80 | byte(n&0x3f)})
		}
		return string(utf8.AppendRune(nil, rune(n)))
	})
}
