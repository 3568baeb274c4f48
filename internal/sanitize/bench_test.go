package sanitize

import (
	"strings"
	"testing"
)

// About the size of one delta, and of a whole answer.
var benchTexts = []struct{ name, text string }{
	{"ASCII/32B", "The incident report says so, and"},
	{"ASCII/64KB", strings.Repeat("The incident report says so, and it goes on to tell why.\n\tThen\n", 1024)},
	{"mixed/64KB", strings.Repeat("Größe 12 µm — 水位正常 🚰✅ é (e\u0301) קו מים, and so on.\n\t--", 1024)},
	{"hostile/64KB", strings.Repeat("\x1b[2J\x1b]52;c;x\a\u009b31m\u202eab\u202c\r\b\xff"+highHalf+lowHalf+"\U000E0041\ufeffwords here", 1024)},
}

func BenchmarkStream(b *testing.B) {
	for _, bt := range benchTexts {
		b.Run(bt.name, func(b *testing.B) {
			b.SetBytes(int64(len(bt.text)))
			b.ReportAllocs()
			var s Stream
			for b.Loop() {
				s.Write(bt.text)
			}
		})
	}
}

func BenchmarkLineMax(b *testing.B) {
	for _, bt := range benchTexts {
		b.Run(bt.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				LineMax(bt.text, 60)
			}
		})
	}
}

func BenchmarkRedactor(b *testing.B) {
	r := NewRedactor("a-token-of-some-length-0123456789")
	text := benchTexts[1].text
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		r.String(text)
	}
}
