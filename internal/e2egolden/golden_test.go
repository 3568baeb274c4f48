package e2egolden_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aiptest"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/google/go-cmp/cmp"
)

// golden is a reading of a whole stream that was made by hand.
type golden struct {
	Operation    string    `json:"operation"`
	Text         string    `json:"text"`
	RawText      *string   `json:"raw_text"`
	Items        []docItem `json:"items"`
	Tools        []tool    `json:"tools"`
	FinishReason string    `json:"finish_reason"`
	Verdict      string    `json:"verdict"`
	ExitCode     int       `json:"exit_code"`
	Warnings     []string  `json:"warnings"`
}

func loadGolden(t testing.TB, name string) golden {
	t.Helper()
	return readGolden(t, aiptest.Testdata(t, "golden", name+".json"))
}

func readGolden(t testing.TB, path string) golden {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var g golden
	dec := json.NewDecoder(bytes.NewReader(src))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&g); err != nil {
		t.Fatalf("golden %s: %v", path, err)
	}
	slices.Sort(g.Warnings)
	return g
}

// namesOf lists the files of a folder below testdata, without their endings.
func namesOf(t testing.TB, folder, ending string) []string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(aiptest.Testdata(t, folder), "*"+ending))
	if err != nil || len(files) == 0 {
		t.Fatalf("testdata/%s has no *%s (%v)", folder, ending, err)
	}
	var names []string
	for _, f := range files {
		names = append(names, strings.TrimSuffix(filepath.Base(f), ending))
	}
	return names
}

func TestEveryGoldenHasAStreamAndEveryStreamAGolden(t *testing.T) {
	streams := slices.Concat(namesOf(t, "provider", ".sse"), namesOf(t, "streams", ".jsonl"))
	slices.Sort(streams)
	if diff := cmp.Diff(streams, namesOf(t, "golden", ".json")); diff != "" {
		t.Errorf("streams and goldens differ (-streams +goldens):\n%s", diff)
	}
}

// stdout is what text mode has to print.
func (g golden) stdout() string {
	if g.RawText != nil {
		return sanitize.Block(*g.RawText).String()
	}
	return g.Text
}

// answer is the text without the line end that text mode adds: the messages,
// apart by one line end.
func (g golden) answer() string {
	var parts []string
	for _, it := range g.Items {
		if it.Kind == "message" && it.Text != "" {
			parts = append(parts, it.Text)
		}
	}
	return strings.Join(parts, "\n")
}

// advice are the warnings that depend on what the stream holds. More codes may
// stand in an outcome.
var advice = []string{"text.none", "tool.unfinished", "tools.unconfirmed", "usage.without_text", "usage.zero"}

// compareText holds the text form to the golden.
func (g golden) compareText(t *testing.T, s shot) {
	t.Helper()
	if want := g.stdout(); s.stdout != want {
		t.Errorf("stdout (-want +got):\n%s", cmp.Diff(tail(want), tail(s.stdout)))
	}
	if s.code != g.ExitCode {
		t.Errorf("exit code %d, want %d; stderr:\n%s", s.code, g.ExitCode, tail(s.stderr))
	}
	if line := verdictLine(s.stderr); !verdictIs(line, g.Verdict) {
		t.Errorf("stderr says %q, want the verdict %s", line, g.Verdict)
	}
	clean(t, "stdout", s.stdout, "\n\t")
	clean(t, "stderr", s.stderr, "\n")
}

// compareOutcome holds an outcome record to the golden.
func (g golden) compareOutcome(t *testing.T, s shot, o outcome) {
	t.Helper()
	if s.code != g.ExitCode || o.ExitCode != g.ExitCode || o.Verdict != g.Verdict {
		t.Errorf("exit code %d, in the outcome %d and %s; want %d and %s\nchecks %v\nstderr %s",
			s.code, o.ExitCode, o.Verdict, g.ExitCode, g.Verdict, o.Checks, tail(s.stderr))
	}
	// Only Chat states a finish reason in a golden; a chat without one has none.
	if chat := strings.HasPrefix(g.Operation, "chat"); (chat || g.FinishReason != "") && o.FinishReason != g.FinishReason {
		t.Errorf("finish_reason is %q, want %q", o.FinishReason, g.FinishReason)
	}
	if diff := cmp.Diff(g.Tools, o.Tools); diff != "" {
		t.Errorf("tools (-want +got):\n%s", diff)
	}
	got := slices.DeleteFunc(o.warned(), func(code string) bool { return !slices.Contains(advice, code) })
	if diff := cmp.Diff(append([]string{}, g.Warnings...), append([]string{}, got...)); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

// compareDocument holds the one document of JSON to the golden.
func (g golden) compareDocument(t *testing.T, s shot) {
	t.Helper()
	o := readOutcome(t, s.stdout)
	g.compareOutcome(t, s, o)
	if want := g.answer(); o.Text != want {
		t.Errorf("text (-want +got):\n%s", cmp.Diff(tail(want), tail(o.Text)))
	}
	if diff := cmp.Diff(g.Items, append([]docItem{}, o.Items...)); diff != "" {
		t.Errorf("items (-want +got):\n%s", diff)
	}
}

// compareLines holds JSON Lines to the golden: text by its three keys, items in
// the order in which they opened, the last word on every tool.
func (g golden) compareLines(t *testing.T, s shot) {
	t.Helper()
	all, o := records(t, s)
	g.compareOutcome(t, s, o)
	texts, order := textsOf(all)
	wanted := map[textKey]string{}
	var sequence []textKey
	for _, it := range g.Items {
		if it.Kind == "message" && it.Text != "" {
			k := textKey{it.ItemID, it.OutputIndex, it.ContentIndex}
			wanted[k] = it.Text
			sequence = append(sequence, k)
		}
	}
	if diff := cmp.Diff(wanted, texts); diff != "" {
		t.Errorf("text by item (-want +got):\n%s", tail(diff))
	}
	if diff := cmp.Diff(sequence, order); diff != "" {
		t.Errorf("items with text, in their order (-want +got):\n%s", diff)
	}
	if strings.HasPrefix(g.Operation, "responses") {
		want := slices.Clone(g.Items)
		for i := range want {
			want[i].Text = ""
		}
		if diff := cmp.Diff(want, opened(all)); diff != "" {
			t.Errorf("item records (-want +got):\n%s", diff)
		}
	}
	if diff := cmp.Diff(g.Tools, lastOfTools(all)); diff != "" {
		t.Errorf("tool records (-want +got):\n%s", diff)
	}
	var warned []string
	for _, r := range ofType(all, "warning") {
		if slices.Contains(advice, r.Code) {
			warned = append(warned, r.Code)
		}
	}
	slices.Sort(warned)
	if diff := cmp.Diff(append([]string{}, g.Warnings...), append([]string{}, slices.Compact(warned)...)); diff != "" {
		t.Errorf("warning records (-want +got):\n%s", diff)
	}
}

// textKey is what rebuilds the text of an item from its deltas.
type textKey struct {
	ItemID                    string
	OutputIndex, ContentIndex int
}

// textsOf joins the text records of choice 0 by their keys, and lists the keys
// in the order of their first record.
func textsOf(all []rec) (map[textKey]string, []textKey) {
	texts := map[textKey]string{}
	var order []textKey
	for _, r := range ofType(all, "text") {
		if r.Choice != 0 {
			continue
		}
		k := textKey{r.ItemID, r.OutputIndex, r.ContentIndex}
		if _, seen := texts[k]; !seen {
			order = append(order, k)
		}
		texts[k] += r.Text
	}
	return texts, order
}

// opened lists the items of the item records, each once.
func opened(all []rec) []docItem {
	items := []docItem{}
	for _, r := range ofType(all, "item") {
		it := docItem{Kind: r.Kind, ItemID: r.ItemID, OutputIndex: r.OutputIndex, CallID: r.CallID, Name: r.Name}
		if !slices.ContainsFunc(items, func(o docItem) bool { return o.ItemID == it.ItemID }) {
			items = append(items, it)
		}
	}
	return items
}

// lastOfTools is the last state of each tool call, in the order of the first
// record of it. A call without an id ends the oldest one of its name that runs.
func lastOfTools(all []rec) []tool {
	tools := []tool{}
	for _, r := range ofType(all, "tool") {
		i := slices.IndexFunc(tools, func(x tool) bool {
			if r.CallID != "" {
				return x.CallID == r.CallID
			}
			return x.CallID == "" && x.Name == r.Name && x.Status == "running" && r.Status != "running"
		})
		if i < 0 {
			tools = append(tools, tool{r.Name, r.CallID, r.Status})
			continue
		}
		tools[i].Status = r.Status
	}
	return tools
}
