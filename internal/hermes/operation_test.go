package hermes

import (
	"bufio"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
)

// TestOperationOfRecordedStreams: no chunk of a recorded stream names another
// operation than its own, and one of the first twenty names it.
func TestOperationOfRecordedStreams(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "testdata", "streams", "*.jsonl"))
	if err != nil || len(files) < 20 {
		t.Fatalf("%d recorded streams, %v", len(files), err)
	}
	told := map[string]bool{}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".jsonl")
		want := ""
		for _, op := range []string{"session_chat_stream", "chat_stream", "responses_stream", "run_events", "operator"} {
			if strings.HasPrefix(name, op) {
				want = op
				break
			}
		}
		if want == "" {
			continue // a stream of odd frames, or none
		}
		f, err := os.Open(file)
		if err != nil {
			t.Fatal(err)
		}
		lines := bufio.NewScanner(f)
		lines.Buffer(nil, 16<<20)
		for n := 0; lines.Scan() && strings.Contains(lines.Text(), `"kind"`); n++ {
			item, err := aip.DecodeFollowItem(lines.Bytes(), aip.Decoding{})
			if err != nil || item.Chunk == nil {
				t.Fatalf("%s: %v", name, err)
			}
			got := Operation(item.Chunk)
			if got != "" && got != want {
				t.Errorf("%s: chunk %d reads as %s", name, n, got)
			}
			if got == want && n < 20 {
				told[want] = true
			}
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if len(told) != 5 {
		t.Errorf("told only of %v", told)
	}
}
