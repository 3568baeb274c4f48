package e2egolden_test

import (
	"encoding/json"
	"strings"
	"testing"
)

// TestRawData reads one stream by every way there is. With --include-raw each
// chunk has the provider's bytes as the daemon keeps them, and without it none.
func TestRawData(t *testing.T) {
	t.Parallel()
	const stream = "chat_stream_complete"
	want := map[uint64]string{}
	for i, c := range keep(t, stream, "chat_stream").chunks {
		var x struct {
			Data struct {
				SSE struct {
					Raw string `json:"raw_data"`
				} `json:"hermes_sse"`
			} `json:"data"`
		}
		if err := json.Unmarshal(c, &x); err != nil || x.Data.SSE.Raw == "" {
			t.Fatalf("chunk %d has no raw data (%v)", i, err)
		}
		want[uint64(i)] = x.Data.SSE.Raw
	}
	for rule, tc := range map[string]struct {
		args   []string
		gone   bool // only the result has the frames
		source string
	}{
		"the stream":       {[]string{"--follow", "-o", "jsonl"}, false, "follow"},
		"the pages":        {[]string{"-o", "jsonl"}, false, "page"},
		"the pages at end": {[]string{"-o", "json"}, false, "page"},
		"the result":       {[]string{"--follow", "-o", "jsonl"}, true, "aggregate"},
	} {
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			k := keep(t, stream, "chat_stream")
			if tc.gone {
				k.chunks, k.published = nil, 0
			}
			args := append([]string{"action", "events", k.url, k.action, "--include-chunks", "--from", "start"}, tc.args...)
			for _, raw := range []bool{false, true} {
				if raw {
					args = append(args, "--include-raw")
				}
				s := newWorld(t).run(args...)
				got := rawOf(t, s.stdout, tc.source)
				if len(got) != len(want) {
					t.Errorf("%d chunks from %s, want %d; stderr:\n%s", len(got), tc.source, len(want), s.stderr)
				}
				for seq, data := range got {
					if raw && data != want[seq] || !raw && data != "" {
						t.Errorf("include-raw %t: the raw data of chunk %d is %q, the daemon has %q", raw, seq, data, want[seq])
					}
				}
			}
		})
	}
}

// rawOf is the raw data of each chunk, in records or in a document of them.
func rawOf(t *testing.T, stdout, source string) map[uint64]string {
	t.Helper()
	type chunk struct {
		Type     string  `json:"type"`
		Sequence uint64  `json:"sequence"`
		Source   string  `json:"source"`
		Raw      string  `json:"raw_data"`
		Chunks   []chunk `json:"chunks"`
	}
	out := map[uint64]string{}
	take := func(c chunk) {
		if c.Type == "chunk" && c.Source == source {
			out[c.Sequence] = c.Raw
		}
	}
	for dec := json.NewDecoder(strings.NewReader(stdout)); dec.More(); {
		var c chunk
		if err := dec.Decode(&c); err != nil {
			t.Fatal(err)
		}
		take(c)
		for _, inner := range c.Chunks {
			take(inner)
		}
	}
	return out
}
