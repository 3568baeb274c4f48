package e2egolden_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/google/go-cmp/cmp"
)

// repeats are the places where a Responses stream says the whole text of a
// message again, after its deltas.
var repeats = []string{"content_part.done", "output_item.done", "output_text.done", "part", "response.completed"}

// TestTwoMessagesAtOnce rebuilds the text of two messages whose deltas
// interleave, with a call between them, from JSON Lines by the three keys. The
// input holds every repeat of the whole text, and none of them is shown.
func TestTwoMessagesAtOnce(t *testing.T) {
	t.Run("responses-two-messages", func(t *testing.T) {
		t.Parallel()
		g := readGolden(t, filepath.Join("testdata", "items", "responses-two-messages.json"))
		sc := scenario(t, "responses-two-messages")
		server, url := embedded(t, devserver.Options{})
		var ids []string
		run := func(format string) shot {
			s := newWorld(t).run(callScenario(sc, url, "-o", format)...)
			ids = server.Submits()
			return s
		}
		g.compareText(t, run("text"))
		g.compareDocument(t, run("json"))
		g.compareLines(t, run("jsonl"))
		chunks := chunksAt(t, url, ids[0])
		for _, it := range g.Items[:2] {
			if diff := cmp.Diff(repeats, repeatsOf(t, chunks, it.Text)); diff != "" {
				t.Errorf("repeats of %q in the input (-want +got):\n%s", it.Text, diff)
			}
		}
	})
	t.Run("20-responses-items", func(t *testing.T) {
		t.Parallel()
		g := readGolden(t, filepath.Join("testdata", "items", "20-responses-items.json"))
		dir := aiptest.CaseDir(t, "20-responses-items")
		run := func(format string) shot {
			p := aiptest.PlayCase(t, dir, "play.json")
			return newWorld(t).run("action", "events", p.URL(), p.ActionID(), "--follow", "--include-chunks", "-o", format)
		}
		g.compareText(t, run("text"))
		g.compareDocument(t, run("json"))
		g.compareLines(t, run("jsonl"))
		src, err := os.ReadFile(filepath.Join(dir, "chunks.jsonl"))
		if err != nil {
			t.Fatal(err)
		}
		var chunks []json.RawMessage
		for line := range bytes.Lines(src) {
			chunks = append(chunks, line)
		}
		if diff := cmp.Diff(repeats, repeatsOf(t, chunks, "Level is 3.2 m.")); diff != "" {
			t.Errorf("repeats of the first text in the input (-want +got):\n%s", diff)
		}
	})
}

// chunksAt reads the chunks that a daemon keeps of an action.
func chunksAt(t *testing.T, url, id string) []json.RawMessage {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url+"/aip/v1/actions/"+id+"/events?include_chunks=true&limit=1000", nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var page struct {
		ActionEvents struct {
			Chunks []json.RawMessage `json:"chunks"`
		} `json:"action_events"`
	}
	if err := json.Unmarshal(body, &page); err != nil || len(page.ActionEvents.Chunks) == 0 {
		t.Fatalf("no chunks of %s (%v): %.300s", id, err, body)
	}
	return page.ActionEvents.Chunks
}

// repeatsOf names the places in which chunks hold the whole of a text.
func repeatsOf(t *testing.T, chunks []json.RawMessage, text string) []string {
	t.Helper()
	type content []struct {
		Text string `json:"text"`
	}
	var found []string
	for _, raw := range chunks {
		var c struct {
			Part struct {
				Text string `json:"text"`
			} `json:"part"`
			Data struct {
				Frame struct {
					Event string `json:"event"`
					Data  struct {
						Text string `json:"text"`
						Part struct {
							Text string `json:"text"`
						} `json:"part"`
						Item struct {
							Content content `json:"content"`
						} `json:"item"`
						Response struct {
							Output []struct {
								Type    string          `json:"type"`
								Content content         `json:"content"`
								Output  json.RawMessage `json:"output"`
							} `json:"output"`
						} `json:"response"`
					} `json:"data"`
				} `json:"hermes_sse"`
			} `json:"data"`
		}
		if err := json.Unmarshal(raw, &c); err != nil {
			t.Fatalf("%v in %.300s", err, raw)
		}
		d := c.Data.Frame.Data
		holds := func(parts content) bool {
			return slices.ContainsFunc(parts, func(p struct {
				Text string `json:"text"`
			}) bool {
				return p.Text == text
			})
		}
		switch c.Data.Frame.Event {
		case "response.output_text.done":
			if d.Text == text {
				found = append(found, "output_text.done")
			}
		case "response.content_part.done":
			if d.Part.Text == text {
				found = append(found, "content_part.done")
			}
		case "response.output_item.done":
			if holds(d.Item.Content) {
				found = append(found, "output_item.done")
			}
		case "response.completed":
			for _, o := range d.Response.Output {
				if holds(o.Content) {
					found = append(found, "response.completed")
				}
			}
		}
		if c.Part.Text == text {
			found = append(found, "part")
		}
	}
	slices.Sort(found)
	return found
}
