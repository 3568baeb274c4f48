package e2egolden_test

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
)

// brokenOff are the recordings whose transfer was cut: the connector ends them
// as a transport error. All others ended as they should.
var brokenOff = []string{
	"chat_disconnect", "chat_server_cancelled", "responses_disconnect", "responses_server_cancelled", "responses_server_shutdown",
}

// TestProviderRecordings plays every recorded provider stream through the
// connector of the embedded daemon, and runs a call in each form of output.
func TestProviderRecordings(t *testing.T) {
	recordings := map[string]devserver.Recording{}
	for _, name := range namesOf(t, "provider", ".sse") {
		body, err := os.ReadFile(aiptest.Testdata(t, "provider", name+".sse"))
		if err != nil {
			t.Fatal(err)
		}
		rec := devserver.Recording{Operation: "chat_stream", SSE: body, Cut: slices.Contains(brokenOff, name)}
		if strings.HasPrefix(name, "responses_") {
			rec.Operation = "responses_stream"
		}
		if rec.Cut && terminated(body) {
			t.Errorf("%s has a terminal frame, and is said to have been cut", name)
		}
		recordings[name] = rec
	}
	for _, name := range brokenOff {
		if _, ok := recordings[name]; !ok {
			t.Errorf("there is no recording %s", name)
		}
	}
	_, url := embedded(t, devserver.Options{Recordings: recordings})
	for name, recording := range recordings {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			g := loadGolden(t, name)
			if g.Operation != recording.Operation {
				t.Fatalf("the golden is of %s, the recording of %s", g.Operation, recording.Operation)
			}
			input := `{"prompt":"Summarize the incident notes","session_id":"s-1"}`
			if recording.Operation == "responses_stream" {
				input = `{"body":{"input":"Summarize the incident notes","store":true}}`
			}
			call := []string{"action", "call", url, "cap:hermes_agent:" + name + ":" + recording.Operation, "--input", input, "-o"}
			g.compareText(t, newWorld(t).run(append(call, "text")...))
			g.compareDocument(t, newWorld(t).run(append(call, "json")...))
			g.compareLines(t, newWorld(t).run(append(call, "jsonl")...))
		})
	}
}

// terminated reports whether a body holds a frame that ends a stream.
func terminated(body []byte) bool {
	for _, end := range []string{"data: [DONE]", "event: response.completed", "event: response.failed", "event: response.incomplete"} {
		if bytes.Contains(body, []byte(end)) {
			return true
		}
	}
	return false
}
