package follow

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/tmaxmax/go-sse"
)

// pieces hands out byte slices one a read, then err.
type pieces struct {
	left  [][]byte
	err   error
	reads int
}

func (p *pieces) Read(b []byte) (int, error) {
	p.reads++
	if len(p.left) == 0 {
		return 0, p.err
	}
	n := copy(b, p.left[0])
	if p.left[0] = p.left[0][n:]; len(p.left[0]) == 0 {
		p.left = p.left[1:]
	}
	return n, nil
}

// every cuts b into pieces of n bytes.
func every(b []byte, n int) [][]byte {
	var out [][]byte
	for len(b) > n {
		out = append(out, b[:n])
		b = b[n:]
	}
	return append(out, b)
}

// handed reads r to its end and returns each piece it handed over.
func handed(r io.Reader, size int) (out []string, err error) {
	buf := make([]byte, size)
	for {
		n, err := r.Read(buf)
		if n > 0 {
			out = append(out, string(buf[:n]))
		}
		if err != nil {
			return out, err
		}
	}
}

func TestLineReaderHandsOverWholeLines(t *testing.T) {
	tests := []struct {
		rule string
		in   []string
		want []string
	}{
		{"a line that comes in pieces is one read", []string{"da", "ta: ", "x\n"}, []string{"data: x\n"}},
		{"lines that came together go together", []string{"a\nb\n\n"}, []string{"a\nb\n\n"}},
		{"a complete line does not wait for the begun one", []string{"a\nb", "c\n"}, []string{"a\n", "bc\n"}},
		{"CR ends a line", []string{"a", "\rb", "\r\r"}, []string{"a\r", "b\r\r"}},
		{"CR LF may be cut in its middle", []string{"a\r", "\n", "\r\n"}, []string{"a\r", "\n", "\r\n"}},
		{"the end hands over what has no end", []string{"a\nb", "c"}, []string{"a\n", "bc"}},
		{"nothing is handed over as nothing", nil, nil},
	}
	for _, tt := range tests {
		t.Run(tt.rule, func(t *testing.T) {
			src := &pieces{err: io.EOF}
			for _, s := range tt.in {
				src.left = append(src.left, []byte(s))
			}
			got, err := handed(newLineReader(src, 1<<20), 4096)
			if err != io.EOF {
				t.Errorf("ended with %v, want EOF", err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("reads (-want +got):\n%s", diff)
			}
		})
	}
}

func TestLineReaderGivesTheSameBytesAtAnyCut(t *testing.T) {
	rnd := rand.New(rand.NewPCG(3, 4))
	alphabet := "ab:\r\n\xff "
	for range 2000 {
		var in strings.Builder
		for range rnd.IntN(200) {
			in.WriteByte(alphabet[rnd.IntN(len(alphabet))])
		}
		src := &pieces{err: io.EOF}
		for rest := []byte(in.String()); len(rest) > 0; {
			n := 1 + rnd.IntN(len(rest))
			src.left = append(src.left, rest[:n])
			rest = rest[n:]
		}
		got, _ := handed(newLineReader(src, 16), 1+rnd.IntN(64))
		if strings.Join(got, "") != in.String() {
			t.Fatalf("%q became %q", in.String(), got)
		}
	}
}

// The scanner behind looks at an event from its first byte after each read, so
// what counts is how often it is given something new.
func TestLineReaderCostsOnePassALine(t *testing.T) {
	const packet = 1400
	line := []byte("data: " + strings.Repeat("x", 1<<20) + "\n\n")
	src := &pieces{left: every(line, packet), err: io.EOF}
	got, _ := handed(newLineReader(src, 8<<20), 4<<20)
	if len(got) != 1 {
		t.Errorf("a line of a mebibyte in %d packets was handed over in %d reads, want 1", len(line)/packet, len(got))
	}
	count := &counting{Reader: newLineReader(&pieces{left: every(line, packet), err: io.EOF}, 8<<20)}
	events := 0
	for ev, err := range sse.Read(count, &sse.ReadConfig{MaxEventSize: 8 << 20}) {
		if err != nil || len(ev.Data) != 1<<20 {
			t.Fatalf("event of %d bytes, %v", len(ev.Data), err)
		}
		events++
	}
	// The scanner doubles its buffer from 4 KiB: nine reads fill it, one more
	// brings the end.
	if events != 1 || count.n > 12 {
		t.Errorf("%d events took the scanner %d reads, want 1 in at most 12", events, count.n)
	}
}

type counting struct {
	io.Reader
	n int
}

func (c *counting) Read(p []byte) (int, error) {
	c.n++
	return c.Reader.Read(p)
}

func TestLineReaderIsNotAheadOfItsSource(t *testing.T) {
	src := &pieces{left: [][]byte{[]byte("a\n"), []byte("b\n")}, err: io.EOF}
	r := newLineReader(src, 1024)
	buf := make([]byte, 64)
	if n, err := r.Read(buf); string(buf[:n]) != "a\n" || err != nil || src.reads != 1 {
		t.Errorf("first read %q, %v after %d reads of the source; a line that is there must not wait for the next", buf[:n], err, src.reads)
	}
}

func TestLineReaderHandsAnEndlessLineOver(t *testing.T) {
	const limit = 64 << 10
	endless := readerFunc(func(p []byte) (int, error) { return copy(p, bytes.Repeat([]byte("x"), 1000)), nil })
	r := newLineReader(endless, limit)
	n, err := r.Read(make([]byte, 1<<20))
	if err != nil || n <= limit || n > limit+32<<10 {
		t.Errorf("read %d bytes, %v; a line past the limit is handed over as it is, for the scanner to refuse", n, err)
	}
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

func TestLineReaderKeepsTheErrorForAfterTheBytes(t *testing.T) {
	broken := errors.New("broken")
	r := newLineReader(&pieces{left: [][]byte{[]byte("a\nhalf")}, err: broken}, 1024)
	got, err := handed(r, 64)
	if diff := cmp.Diff([]string{"a\n", "half"}, got); diff != "" || !errors.Is(err, broken) {
		t.Errorf("err %v, reads (-want +got):\n%s", err, diff)
	}
}
