package sanitize

import (
	"strings"
	"testing"
	"unicode/utf16"
	"unicode/utf8"
)

// joinHalves is a second, plainer statement of how surrogate halves are read.
func joinHalves(s string) string {
	half := func(s string) rune {
		if len(s) >= 3 && s[0] == 0xed && s[1] >= 0xa0 && s[1] <= 0xbf && s[2] >= 0x80 && s[2] <= 0xbf {
			return rune(s[0]&0x0f)<<12 | rune(s[1]&0x3f)<<6 | rune(s[2]&0x3f)
		}
		return 0
	}
	var b strings.Builder
	for s != "" {
		if high := half(s); high != 0 {
			if r := utf16.DecodeRune(high, half(s[3:])); r != utf8.RuneError {
				b.WriteRune(r)
				s = s[6:]
				continue
			}
		}
		b.WriteByte(s[0])
		s = s[1:]
	}
	return b.String()
}

// cutBy cuts text into deltas of up to seven bytes, as long as the bytes of cuts
// say, over and over. After an empty delta comes one of a byte.
func cutBy(text string, cuts []byte) []string {
	if len(cuts) == 0 {
		return []string{text}
	}
	var out []string
	for i := 0; text != ""; i++ {
		n := min(int(cuts[i%len(cuts)]%8), len(text))
		if n == 0 {
			out = append(out, "")
			n = 1
		}
		out = append(out, text[:n])
		text = text[n:]
	}
	return out
}

func addSeeds(f *testing.F, add func(text string)) {
	f.Helper()
	for _, tc := range rules {
		add(tc.in)
	}
}

func FuzzStream(f *testing.F) {
	addSeeds(f, func(text string) {
		f.Add(text, []byte{1})
		f.Add(text, []byte{2, 3, 0})
	})
	f.Fuzz(func(t *testing.T, text string, cuts []byte) {
		whole := Block(text).String()
		clean(t, whole, false)
		if got := Block(whole).String(); got != whole {
			t.Errorf("cleaned again\n got %q\nwant %q", got, whole)
		}
		if got := printed(t, cutBy(text, cuts)...); got != whole {
			t.Errorf("in deltas\n got %q\nwant %q", got, whole)
		}
		if !strings.Contains(text, `\`) {
			want := strings.ReplaceAll(joinHalves(text), "\r\n", "\n")
			if got := unescape(t, whole); got != want {
				t.Errorf("%q says\n     %q\nnot  %q", whole, got, want)
			}
		}
	})
}

func FuzzLine(f *testing.F) {
	addSeeds(f, func(text string) {
		f.Add(text, 4)
		f.Add(text, 40)
	})
	f.Fuzz(func(t *testing.T, text string, runes int) {
		whole := Line(text).String()
		clean(t, whole, true)
		if got := Line(whole).String(); got != whole {
			t.Errorf("cleaned again\n got %q\nwant %q", got, whole)
		}
		if !strings.Contains(text, `\`) {
			if got, want := unescape(t, whole), joinHalves(text); got != want {
				t.Errorf("%q says\n     %q\nnot  %q", whole, got, want)
			}
		}

		short := LineMax(text, runes).String()
		clean(t, short, true)
		switch n := utf8.RuneCountInString(whole); {
		case runes < 1:
			if short != "" {
				t.Errorf("%d runes give %q", runes, short)
			}
		case n <= runes:
			if short != whole {
				t.Errorf("%q fits but became %q", whole, short)
			}
		default:
			head, ok := strings.CutSuffix(short, ellipsis)
			if !ok || !strings.HasPrefix(whole, head) || utf8.RuneCountInString(short) > runes {
				t.Errorf("%q in %d runes became %q", whole, runes, short)
			}
		}
	})
}

func FuzzRedactor(f *testing.F) {
	f.Add("before ", "s3cr/t+\"<é>&key", " after")
	f.Add("", "abab", "ab")
	f.Fuzz(func(t *testing.T, before, secret, after string) {
		trimmed := strings.TrimSpace(secret)
		if len(trimmed) < minSecret || strings.Contains(redacted, trimmed) {
			return
		}
		r := NewRedactor(secret)
		for form, in := range map[string]string{
			"plain": trimmed, "json": jsonForms(trimmed)[0], "url": urlForms(trimmed)[0], "base64": base64Forms(trimmed)[0],
		} {
			got := r.String(before + in + after)
			if !strings.Contains(got, redacted) {
				t.Errorf("%s: nothing redacted in %q", form, got)
			}
		}
		if got := r.String(trimmed); got != redacted {
			t.Errorf("%q became %q", trimmed, got)
		}
	})
}
