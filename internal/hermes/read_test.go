package hermes

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/go-json-experiment/json/jsontext"
)

// caseChunks reads the chunks of a case: a .jsonl file of chunks, or the
// chunk frames of a follow stream.
func caseChunks(t *testing.T, dir, file string) []*aip.Chunk {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(aiptest.CaseDir(t, dir), file))
	if err != nil {
		t.Fatal(err)
	}
	var chunks []*aip.Chunk
	for line := range bytes.Lines(src) {
		data := line
		if strings.HasSuffix(file, ".sse") {
			var ok bool
			if data, ok = bytes.CutPrefix(line, []byte("data: ")); !ok {
				continue
			}
		}
		item, err := aip.DecodeFollowItem(data, aip.Decoding{})
		if err != nil {
			t.Fatal(err)
		}
		if item.Chunk != nil {
			chunks = append(chunks, item.Chunk)
		}
	}
	if len(chunks) == 0 {
		t.Fatalf("%s/%s holds no chunk", dir, file)
	}
	return chunks
}

// facts is what chunks come to, applied in the order given.
func facts(chunks []*aip.Chunk) transcript.Facts {
	tr := transcript.New()
	for _, c := range chunks {
		tr.Apply(c.Sequence, Chunk(c))
	}
	return tr.Facts()
}

// capture reads a recorded provider stream, frame by frame, as the connector
// would pass it on. Recordings have one data line a frame.
func capture(t *testing.T, name string) []*aip.Chunk {
	t.Helper()
	src, err := os.ReadFile(filepath.Join(aiptest.ModuleRoot(t), "internal", "devserver", "scenarios", name+".sse"))
	if err != nil {
		t.Fatal(err)
	}
	var chunks []*aip.Chunk
	for block := range strings.SplitSeq(string(src), "\n\n") {
		f := aip.Frame{}
		for line := range strings.SplitSeq(block, "\n") {
			if event, ok := strings.CutPrefix(line, "event: "); ok {
				f.Event = event
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				f.Data = jsontext.Value(data)
				if data == "[DONE]" {
					f.Data = jsontext.Value(`"[DONE]"`)
				}
			}
		}
		if f.Data != nil {
			chunks = append(chunks, &aip.Chunk{Sequence: uint64(len(chunks)), Kind: aip.KindData, Frame: &f})
		}
	}
	return chunks
}

// frame is a provider frame with this data and no name.
func frame(data string) *aip.Frame { return &aip.Frame{Data: jsontext.Value(data)} }

// framesFacts is what frames come to, one chunk each.
func framesFacts(frames ...*aip.Frame) transcript.Facts {
	tr := transcript.New()
	for i, f := range frames {
		tr.Apply(uint64(i), Frame(f))
	}
	return tr.Facts()
}
