//go:build unix

package e2eproc

import (
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
)

// The connector may write a chunk only after everything before it was read
// from the program's stdout: a delta that waits anywhere stops the test.
func TestEachDeltaIsOutBeforeTheNextIsWritten(t *testing.T) {
	t.Parallel()
	const capability = "cap:hermes_agent:chat-slow:chat_stream"
	want := play(t, capability)
	for rule, tt := range map[string]struct {
		args []string
		text func(t *testing.T, out string) string
	}{
		"text":                    {nil, func(_ *testing.T, out string) string { return out }},
		"text, said aloud":        {[]string{"-v"}, func(_ *testing.T, out string) string { return out }},
		"jsonl":                   {[]string{"-o", "jsonl"}, func(t *testing.T, out string) string { return textOf(recordsOf(t, out)) }},
		"jsonl with raw data too": {[]string{"-o", "jsonl", "--include-raw"}, func(t *testing.T, out string) string { return textOf(recordsOf(t, out)) }},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			steps := make(chan uint64) // a chunk that wants to be written
			next := make(chan struct{})
			var over sync.Once
			end := make(chan struct{})
			defer over.Do(func() { close(end) })
			d := newDaemon(t, setup{Options: devserver.Options{
				Poll: time.Millisecond,
				Hooks: devserver.Hooks{BeforeChunk: func(_ string, seq uint64) {
					select {
					case steps <- seq:
					case <-end:
						return
					}
					select {
					case <-next:
					case <-end:
					}
				}},
			}})
			p := d.newHome().start(append([]string{"action", "call", d.url, capability, "--prompt", "x"}, tt.args...)...)
			deltas := 0
			for range want.chunks {
				var seq uint64
				select {
				case seq = <-steps:
				case <-time.After(hang):
					t.Fatalf("no further chunk; stderr:\n%s", p.stderr)
				}
				so := want.upTo(seq)
				p.out.awaiting("the deltas before the next chunk", func() bool {
					out := string(p.out.got)
					return (out == "" || strings.HasSuffix(out, "\n") || len(tt.args) == 0 || tt.args[0] == "-v") && tt.text(t, out) == so
				})
				if so != want.upTo(seq+1) {
					deltas++
				}
				next <- struct{}{}
			}
			got := p.wait()
			wantCode(t, got, 0)
			if text := strings.TrimSuffix(tt.text(t, got.out), "\n"); text != want.text || deltas < 40 {
				t.Errorf("%d deltas, the whole is %q, want %q", deltas, text, want.text)
			}
		})
	}
}
