package render

import (
	"io"
	"testing"

	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// BenchmarkDelta shows one delta of twenty bytes with the chunk around it.
func BenchmarkDelta(b *testing.B) {
	d := record.Delivery{
		Chunk: record.Chunk{Kind: "data", Source: record.SourceFollow, Data: jsontext.Value(
			`{"id":"chatcmpl-1","object":"chat.completion.chunk","created":1893456000,"model":"m","choices":[{"index":0,"delta":{"content":"twenty bytes of text"},"finish_reason":null}]}`)},
		Ops: []transcript.Op{transcript.Text{Text: "twenty bytes of text"}},
	}
	for _, format := range []Format{Text, JSONL} {
		b.Run(format.String(), func(b *testing.B) {
			r := New(Options{Stdout: io.Discard, Format: format})
			if err := r.Identity(record.Identity{ActionID: "act_1"}); err != nil {
				b.Fatal(err)
			}
			b.ReportAllocs()
			for b.Loop() {
				if err := r.Deliver(d); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
