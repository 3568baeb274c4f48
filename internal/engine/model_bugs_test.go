package engine_test

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/aipctl/aipctl/internal/verdict"
)

// bug is a mistake that clients make, put between the engine and what it is
// given. The model is worth something only while it finds every one.
type bug struct {
	name  string
	plant func(engine.Config) engine.Config
}

var bugs = []bug{
	{"the cursor moves before the write", func(c engine.Config) engine.Config {
		c.Sink = &lateSink{Sink: c.Sink}
		return c
	}},
	{"a 503 is posted again", func(c engine.Config) engine.Config {
		c.Net = again{c.Net}
		return c
	}},
	{"[DONE] is success", func(c engine.Config) engine.Config {
		c.Sink = &doneSink{Sink: c.Sink}
		return c
	}},
	{"the terminal mark ends the reading", func(c engine.Config) engine.Config {
		c.Net = undrained{c.Net}
		return c
	}},
	{"the last duplicate wins", func(c engine.Config) engine.Config {
		c.Net = lastWins{c.Net}
		return c
	}},
}

// lateSink says that a chunk was written when it has only been taken: it is
// written when the next thing comes.
type lateSink struct {
	engine.Sink
	held *record.Delivery
}

func (s *lateSink) flush() error {
	d := s.held
	if d == nil {
		return nil
	}
	s.held = nil
	return s.Sink.Deliver(*d)
}

func (s *lateSink) Deliver(d record.Delivery) error {
	err := s.flush()
	s.held = &d
	return err
}

func (s *lateSink) State(r record.State) error { return errors.Join(s.flush(), s.Sink.State(r)) }

func (s *lateSink) Outcome(o *verdict.Outcome) error {
	return errors.Join(s.flush(), s.Sink.Outcome(o))
}

// again submits once more, as a new message, when the first one met a 503.
type again struct{ engine.Network }

var messageID = regexp.MustCompile(`"message_id":"[^"]*`)

func (n again) Submit(ctx context.Context, envelope []byte, sent func(), d aip.ResultDecoding) (*aip.Reply, error) {
	reply, err := n.Network.Submit(ctx, envelope, sent, d)
	var remote *aip.RemoteError
	if errors.As(err, &remote) && remote.Status == 503 {
		return n.Network.Submit(ctx, messageID.ReplaceAll(envelope, []byte(`${0}_again`)), sent, d)
	}
	return reply, err
}

// doneSink calls an action accepted once its stream said [DONE].
type doneSink struct {
	engine.Sink
	done bool
}

func (s *doneSink) Deliver(d record.Delivery) error {
	for _, op := range d.Ops {
		if _, ok := op.(transcript.Done); ok {
			s.done = true
		}
	}
	return s.Sink.Deliver(d)
}

func (s *doneSink) Outcome(o *verdict.Outcome) error {
	if s.done {
		o.Verdict, o.ExitCode = "accepted", 0
	}
	return s.Sink.Outcome(o)
}

// undrained reads no page behind a cursor: what the stream has not brought by
// its terminal mark is never asked for.
type undrained struct{ engine.Network }

func (n undrained) Page(ctx context.Context, q aip.EventsQuery, d aip.Decoding) (*aip.EventsPage, error) {
	if q.Cursor != "" {
		return &aip.EventsPage{ActionID: q.ActionID, Cursor: q.Cursor}, nil
	}
	return n.Network.Page(ctx, q, d)
}

// lastWins lets a chunk that comes again stand in the place of the first.
type lastWins struct{ engine.Network }

func (n lastWins) Page(ctx context.Context, q aip.EventsQuery, d aip.Decoding) (*aip.EventsPage, error) {
	page, err := n.Network.Page(ctx, q, d)
	if err != nil {
		return nil, err
	}
	var kept []aip.Chunk
	for _, c := range page.Chunks {
		if k := len(kept); k > 0 && kept[k-1].Sequence == c.Sequence {
			kept = kept[:k-1]
		}
		kept = append(kept, c)
	}
	page.Chunks = kept
	return page, nil
}

func (n lastWins) Follow(ctx context.Context, q aip.EventsQuery) (io.ReadCloser, error) {
	body, err := n.Network.Follow(ctx, q)
	if err != nil {
		return nil, err
	}
	return &lastWinsBody{ReadCloser: body, in: bufio.NewReader(body)}, nil
}

type lastWinsBody struct {
	io.ReadCloser
	in   *bufio.Reader
	held []byte // a chunk that may still be replaced
	out  bytes.Buffer
}

func (b *lastWinsBody) Read(p []byte) (int, error) {
	for b.out.Len() == 0 {
		block, err := b.block()
		if err != nil {
			b.out.Write(b.held)
			b.out.Write(block)
			b.held = nil
			if b.out.Len() == 0 {
				return 0, err
			}
			break
		}
		if id := chunkID(block); id != "" {
			if id != chunkID(b.held) {
				b.out.Write(b.held)
			}
			b.held = block
			continue
		}
		b.out.Write(b.held)
		b.out.Write(block)
		b.held = nil
	}
	return b.out.Read(p)
}

// block reads up to the next blank line.
func (b *lastWinsBody) block() ([]byte, error) {
	var block []byte
	for {
		line, err := b.in.ReadBytes('\n')
		block = append(block, line...)
		if err != nil || string(line) == "\n" {
			return block, err
		}
	}
}

func chunkID(block []byte) string {
	_, rest, ok := strings.Cut(string(block), "\nid: chunk:")
	if !ok {
		return ""
	}
	id, _, _ := strings.Cut(rest, "\n")
	return id
}

// TestModelFindsPlantedBugs is the test of the test: each bug has to be found
// within two thousand seeds, on a seed that is sound without it.
func TestModelFindsPlantedBugs(t *testing.T) {
	if testing.Short() {
		t.Skip("tests the model, by many more of its runs")
	}
	learn(t)
	for _, b := range bugs {
		t.Run(b.name, func(t *testing.T) {
			t.Parallel()
			scratch := filepath.Join(t.TempDir(), "state.jsonl")
			for i := range uint64(2000) {
				seed := *modelStart + i
				w := run(t, seed, scratch, &b)
				if len(w.broken) == 0 {
					continue
				}
				if sound := run(t, seed, scratch, nil); len(sound.broken) > 0 {
					t.Fatalf("seed %d is broken without the bug: %s", seed, sound.report())
				}
				t.Logf("found at seed %d, after %d that hid it: %s", seed, i, w.broken[0])
				return
			}
			t.Error("not found within 2000 seeds")
		})
	}
}
