package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
)

// Tampers change one page after another. Each calls its hit, if it has one,
// when it changed something.

// Repeat sends chunks again: beside themselves and, on later pages, out of the
// past; now as they are, now spelled anew with the same value.
func Repeat(rnd *rand.Rand, hit func()) func(*EventPage) {
	var mu sync.Mutex
	old := map[uint64]EventChunk{}
	return func(p *EventPage) {
		mu.Lock()
		defer mu.Unlock()
		var out []EventChunk
		for _, c := range p.Chunks {
			out = append(out, c)
			if rnd.IntN(3) == 0 {
				out = append(out, respelled(c))
			}
			if past := slices.Sorted(maps.Keys(old)); len(past) > 0 && rnd.IntN(3) == 0 {
				again := old[past[rnd.IntN(len(past))]]
				if again.Sequence < c.Sequence {
					out = append(out, again)
				}
			}
			old[c.Sequence] = c
		}
		if len(out) > len(p.Chunks) {
			call(hit)
		}
		p.Chunks = out
	}
}

func call(f func()) {
	if f != nil {
		f()
	}
}

// respelled is the same chunk with its keys in another order.
func respelled(c EventChunk) EventChunk {
	dec := json.NewDecoder(bytes.NewReader(c.Raw))
	dec.UseNumber() // digits stay
	var v map[string]any
	if dec.Decode(&v) != nil {
		return c
	}
	c.Raw = mustJSON(v)
	return c
}

// Shuffle puts the chunks of a page in disorder.
func Shuffle(rnd *rand.Rand, hit func()) func(*EventPage) {
	var mu sync.Mutex
	return func(p *EventPage) {
		if len(p.Chunks) < 2 {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		before := slices.Clone(p.Chunks)
		p.Chunks = slices.Clone(p.Chunks)
		rnd.Shuffle(len(p.Chunks), func(i, j int) { p.Chunks[i], p.Chunks[j] = p.Chunks[j], p.Chunks[i] })
		if !slices.EqualFunc(before, p.Chunks, func(a, b EventChunk) bool { return a.Sequence == b.Sequence }) {
			call(hit)
		}
	}
}

// Words that stand in chunks that the daemon never stored.
const foreignWords = "words that nobody wrote"

func textChunk(actionID string, seq uint64) EventChunk {
	raw := fmt.Sprintf(`{"action_id":%q,"sequence":%d,"kind":"data","data":{"hermes_sse":{"data":{"choices":[{"index":0,"delta":{"content":%q},"finish_reason":null}]},"raw_data":"","terminal":false}}}`,
		actionID, seq, foreignWords)
	return EventChunk{Sequence: seq, Kind: "data", Raw: json.RawMessage(raw)}
}

func actionOf(c EventChunk) string {
	var v struct {
		ActionID string `json:"action_id"`
	}
	_ = json.Unmarshal(c.Raw, &v)
	return v.ActionID
}

// Contradict sends one sequence with two contents, side by side: the true one
// first, or last.
func Contradict(seq uint64, trueFirst bool, hit func()) func(*EventPage) {
	return func(p *EventPage) {
		i := slices.IndexFunc(p.Chunks, func(c EventChunk) bool { return c.Sequence == seq })
		if i < 0 {
			return
		}
		if trueFirst {
			i++
		}
		p.Chunks = slices.Insert(slices.Clone(p.Chunks), i, textChunk(actionOf(p.Chunks[max(i-1, 0)]), seq))
		call(hit)
	}
}

// AboveTerminal sends one more chunk behind the one that closes the log.
func AboveTerminal(hit func()) func(*EventPage) {
	return func(p *EventPage) {
		i := slices.IndexFunc(p.Chunks, EventChunk.Closes)
		if i < 0 {
			return
		}
		p.Chunks = append(slices.Clone(p.Chunks), textChunk(actionOf(p.Chunks[i]), p.Chunks[i].Sequence+1))
		call(hit)
	}
}

// Withhold leaves a chunk out for as long as it is asked to; the cursors move
// on as if it had been sent.
func Withhold(seq uint64, still func() bool, hit func()) func(*EventPage) {
	return func(p *EventPage) {
		i := slices.IndexFunc(p.Chunks, func(c EventChunk) bool { return c.Sequence == seq })
		if i < 0 || !still() {
			return
		}
		p.Chunks = slices.DeleteFunc(slices.Clone(p.Chunks), func(c EventChunk) bool { return c.Sequence == seq })
		call(hit)
	}
}

// TerminalFirst lets the page of a follow that says terminal keep back its
// chunks from the nth on, as when they were stored between the two reads of
// which a page is made. Plain pages have them.
func TerminalFirst(nth int, hit func()) func(*EventPage) {
	return func(p *EventPage) {
		if !p.Follow || !p.Terminal || len(p.Chunks) == 0 {
			return
		}
		var seqs []uint64
		for _, c := range p.Chunks {
			seqs = append(seqs, c.Sequence)
		}
		slices.Sort(seqs)
		from := seqs[nth%len(seqs)]
		p.Cursor = ClampCursor(p.Cursor, from)
		p.Chunks = slices.DeleteFunc(slices.Clone(p.Chunks), func(c EventChunk) bool { return c.Sequence >= from })
		call(hit)
	}
}

// Inflate gives a chunk a raw_data of so many bytes.
func Inflate(seq uint64, size int, hit func()) func(*EventPage) {
	var once sync.Once
	var large json.RawMessage
	return func(p *EventPage) {
		i := slices.IndexFunc(p.Chunks, func(c EventChunk) bool { return c.Sequence == seq })
		if i < 0 {
			return
		}
		once.Do(func() { large = inflated(p.Chunks[i].Raw, size) })
		if large == nil {
			return
		}
		p.Chunks = slices.Clone(p.Chunks)
		p.Chunks[i].Raw = large
		call(hit)
	}
}

// inflated is nil for a chunk that holds no provider frame.
func inflated(raw json.RawMessage, size int) json.RawMessage {
	var v, data, frame map[string]json.RawMessage
	if json.Unmarshal(raw, &v) != nil || json.Unmarshal(v["data"], &data) != nil || json.Unmarshal(data["hermes_sse"], &frame) != nil {
		return nil
	}
	frame["raw_data"] = json.RawMessage(`"here"`)
	data["hermes_sse"] = mustJSON(frame)
	v["data"] = mustJSON(data)
	return bytes.Replace(mustJSON(v), []byte(`"here"`), []byte(`"`+strings.Repeat("x", size)+`"`), 1)
}
