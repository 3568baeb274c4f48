package render

import (
	"bufio"
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/hermes"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/go-cmp/cmp"
)

// The engine knows the renderer by these methods alone.
var _ interface {
	Identity(record.Identity) error
	State(record.State) error
	Event(record.Event) error
	Deliver(record.Delivery) error
	Warning(record.Warning) error
	Gap(record.Gap) error
	Outcome(*verdict.Outcome) error
} = (*Renderer)(nil)

// The goldens hold commands as a POSIX shell takes them, on any system.
func init() { quote = quotePOSIX }

// rig is a renderer whose streams are buffers and whose clock stands still
// until it is told to go.
type rig struct {
	t        *testing.T
	r        *Renderer
	out, err bytes.Buffer
	clock    time.Time
	lenient  bool // errors of the sink are looked at elsewhere
}

// noon is when every run of these tests starts.
var noon = time.Date(2030, 1, 15, 12, 0, 0, 0, time.UTC)

func newRig(t *testing.T, o Options) *rig {
	t.Helper()
	g := &rig{t: t, clock: noon}
	if o.Stdout == nil {
		o.Stdout = &g.out
	}
	if o.Stderr == nil {
		o.Stderr = &g.err
	}
	o.Now = func() time.Time { return g.clock }
	g.r = New(o)
	return g
}

// ok fails the test where a write has failed.
func (g *rig) ok(err error) {
	g.t.Helper()
	if err != nil && !g.lenient {
		g.t.Fatalf("the sink failed: %v", err)
	}
}

func (g *rig) wait(d time.Duration) { g.clock = g.clock.Add(d) }

func (g *rig) identity() {
	g.t.Helper()
	g.ok(g.r.Identity(record.Identity{
		ActionID:       "act_1",
		CapabilityID:   "cap:hermes_agent:qa:chat_stream",
		URL:            "http://127.0.0.1:8080/base path",
		IdempotencyKey: "key-1",
		StateFile:      "/state/state.jsonl",
		Resume:         []string{"aipctl", "action", "events", "http://127.0.0.1:8080/base path", "act_1", "--follow"},
		Cancel:         []string{"aipctl", "action", "cancel", "http://127.0.0.1:8080/base path", "act_1"},
	}))
}

func (g *rig) state(name string) {
	g.t.Helper()
	g.ok(g.r.State(record.State{State: name}))
}

// deliver shows one chunk that means ops.
func (g *rig) deliver(seq uint64, ops ...transcript.Op) {
	g.t.Helper()
	g.ok(g.r.Deliver(record.Delivery{
		Chunk: record.Chunk{Sequence: seq, Kind: aip.KindData, Source: record.SourceFollow, Data: jsontext.Value("{}")},
		Ops:   ops,
	}))
}

// play shows the chunks of a recording, half a second apart.
func (g *rig) play(name string) {
	g.t.Helper()
	for _, c := range chunks(g.t, name) {
		g.wait(500 * time.Millisecond)
		g.ok(g.r.Deliver(delivery(c)))
	}
}

// outcome is how a good run ends; edit changes what is told of it.
func (g *rig) outcome(edit func(*verdict.Outcome)) {
	g.t.Helper()
	g.ok(g.r.Outcome(outcome(edit)))
}

func outcome(edit func(*verdict.Outcome)) *verdict.Outcome {
	first := int64(1000)
	o := &verdict.Outcome{
		V:            record.Version,
		Type:         record.TypeOutcome,
		ActionID:     "act_1",
		Verdict:      "accepted",
		FinishReason: "stop",
		TextBytes:    21,
		Usage:        jsontext.Value(`{"prompt_tokens":31,"completion_tokens":9,"total_tokens":40}`),
		Tools:        []verdict.Tool{},
		ToolEffects:  "none",
		Warnings:     []verdict.Warning{},
		FirstTextMS:  &first,
		TotalMS:      6250,
	}
	if edit != nil {
		edit(o)
	}
	return o
}

// delivery makes of a chunk what the engine makes of it.
func delivery(c *aip.Chunk) record.Delivery {
	rec := record.Chunk{Sequence: c.Sequence, Kind: c.Kind, Source: record.SourceFollow, Data: c.Data}
	if f := c.Frame; f != nil {
		rec.Event, rec.ID, rec.Data, rec.Terminal, rec.RawData = f.Event, f.ID, f.Data, f.Terminal, f.Raw
	}
	return record.Delivery{Chunk: rec, Ops: hermes.Chunk(c)}
}

// chunks reads a file of the module's testdata with a chunk on each line.
func chunks(t *testing.T, name string) []*aip.Chunk {
	t.Helper()
	src, err := os.ReadFile(filepath.Join("..", "..", "testdata", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	var all []*aip.Chunk
	lines := bufio.NewScanner(bytes.NewReader(src))
	lines.Buffer(nil, len(src)+1)
	for lines.Scan() {
		dec := jsontext.NewDecoder(bytes.NewReader(lines.Bytes()), jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true))
		c, err := aip.Decoding{Raw: true}.Chunk(dec)
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		all = append(all, c)
	}
	if len(all) == 0 {
		t.Fatalf("%s has no chunks", name)
	}
	return all
}

// golden compares both streams with the two parts of a file that was written
// by hand after the rules.
func (g *rig) golden(name string) {
	g.t.Helper()
	src, err := os.ReadFile(filepath.Join("testdata", name+".txt"))
	if err != nil {
		g.t.Fatal(err)
	}
	want := string(src)
	got := "-- stdout --\n" + g.out.String() + "-- stderr --\n" + g.err.String()
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		g.t.Errorf("not as in %s (-want +got):\n%s", name, diff)
	}
}
