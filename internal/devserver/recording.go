package devserver

import (
	"bytes"
	"embed"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"
)

//go:embed scenarios/*.sse scenarios/*.tsv scenarios/*/*.sse scenarios/*/*.tsv scenarios/*/*.json
var recordings embed.FS

// block is one piece of a recorded provider stream, up to and including its
// blank line, with the time since the request started at which the read that
// completed it arrived.
type block struct {
	at   time.Duration
	data []byte
}

// recording is a recorded stream in order. Values are never changed in place:
// every derivation returns a new one.
type recording []block

// load reads a recorded stream by its path below scenarios. It panics on a
// broken one: the files are part of the program.
func load(name string) recording {
	body, err := recordings.ReadFile("scenarios/" + name + ".sse")
	if err != nil {
		panic("devserver: " + err.Error())
	}
	timing, err := recordings.ReadFile("scenarios/" + name + ".timing.tsv")
	if err != nil {
		panic("devserver: " + err.Error())
	}
	due := dueTimes(name, string(timing), len(body))
	var rec recording
	for offset := 0; offset < len(body); {
		end := bytes.Index(body[offset:], []byte("\n\n"))
		if end < 0 {
			panic("devserver: recording " + name + " ends inside a block")
		}
		next := offset + end + 2
		rec = append(rec, block{at: due(next - 1), data: body[offset:next]})
		offset = next
	}
	return rec
}

// loadBody reads a recorded answer that is no stream, as one block that is due
// at once. It panics when there is none.
func loadBody(name string) recording {
	text, err := recordings.ReadFile("scenarios/bodies/" + name + ".json")
	if err != nil {
		panic("devserver: " + err.Error())
	}
	return recording{{data: text}}
}

// dueTimes reads the timing table and returns the arrival time of a byte.
func dueTimes(name, table string, size int) func(offset int) time.Duration {
	type read struct {
		end int
		at  time.Duration
	}
	var reads []read
	for line := range strings.Lines(table) {
		var n [3]int
		cells := strings.Split(strings.TrimSpace(line), "\t")
		for i := range n {
			v, err := strconv.Atoi(cells[i])
			if err != nil {
				panic("devserver: timing of " + name + ": " + err.Error())
			}
			n[i] = v
		}
		reads = append(reads, read{end: n[1] + n[2], at: time.Duration(n[0]) * time.Millisecond})
	}
	if len(reads) == 0 || reads[len(reads)-1].end != size {
		panic("devserver: timing of " + name + " does not cover its bytes")
	}
	return func(offset int) time.Duration {
		for _, r := range reads {
			if offset < r.end {
				return r.at
			}
		}
		return reads[len(reads)-1].at
	}
}

// find returns the index of the one block that holds text.
func (rec recording) find(text string) int {
	at := -1
	for i, b := range rec {
		if bytes.Contains(b.data, []byte(text)) {
			if at >= 0 {
				panic(fmt.Sprintf("devserver: %q is in more than one block", text))
			}
			at = i
		}
	}
	if at < 0 {
		panic(fmt.Sprintf("devserver: %q is in no block", text))
	}
	return at
}

// until keeps the blocks before the one that holds text.
func (rec recording) until(text string) recording { return rec[:rec.find(text)] }

// without leaves out the block that holds text.
func (rec recording) without(text string) recording {
	at := rec.find(text)
	return append(append(recording{}, rec[:at]...), rec[at+1:]...)
}

// edit replaces text inside the one block that holds it.
func (rec recording) edit(text, by string) recording {
	at := rec.find(text)
	out := append(recording{}, rec...)
	out[at].data = bytes.Replace(rec[at].data, []byte(text), []byte(by), 1)
	return out
}

// cut leaves out what lies between two texts of one block; the first of them,
// from, goes as well, and must be in that block only.
func (rec recording) cut(from, to string) recording {
	at := rec.find(from)
	head, rest, _ := strings.Cut(string(rec[at].data), from)
	_, tail, ok := strings.Cut(rest, to)
	if !ok {
		panic(fmt.Sprintf("devserver: %q does not follow %q", to, from))
	}
	out := append(recording{}, rec...)
	out[at].data = []byte(head + to + tail)
	return out
}

// sequenceNumber matches the provider's own count of Responses events.
var sequenceNumber = regexp.MustCompile(`"sequence_number": \d+}\n\n$`)

// numbered counts the events anew, for a recording that lacks some: the
// provider counts from 0 without a gap.
func (rec recording) numbered() recording {
	out := append(recording{}, rec...)
	for i, b := range out {
		out[i].data = sequenceNumber.ReplaceAll(b.data, fmt.Appendf(nil, "\"sequence_number\": %d}\n\n", i))
	}
	return out
}

// after inserts a block behind the one that holds text, due at the same time.
func (rec recording) after(text, data string) recording {
	at := rec.find(text)
	out := append(recording{}, rec[:at+1]...)
	out = append(out, block{at: rec[at].at, data: []byte(data)})
	return append(out, rec[at+1:]...)
}

// deltas inserts chat deltas behind the block that holds text, written like its
// neighbour; each delta is the body of a JSON string, escapes and all.
func (rec recording) deltas(text string, deltas ...string) recording {
	model := string(rec[rec.find(text)].data)
	head, rest, ok := strings.Cut(model, `{"content": "`)
	_, tail, found := strings.Cut(rest, `"}`)
	if !ok || !found {
		panic(fmt.Sprintf("devserver: the block of %q is no text delta", text))
	}
	mark := text
	for _, d := range deltas {
		data := head + `{"content": "` + d + `"}` + tail
		rec = rec.after(mark, data)
		mark = data
	}
	return rec
}

// providerID matches the start of the ids a provider makes per request.
var providerID = regexp.MustCompile(`\b(chatcmpl-|resp_|run_)[0-9a-f]{4}`)

// again is the recording of the n-th run at one endpoint. A provider never gives
// two requests the same completion, response or run id, so a repeated run of one
// action meets the chunks of the first one with other content, as it does at a real daemon.
func (rec recording) again(n int) recording {
	if n <= 1 {
		return rec
	}
	out := make(recording, len(rec))
	for i, b := range rec {
		out[i] = block{at: b.at, data: providerID.ReplaceAll(b.data, fmt.Appendf(nil, "${1}%04x", n))}
	}
	return out
}
