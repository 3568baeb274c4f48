package aip

import (
	"bytes"
	"fmt"
	"io"
	"runtime"
	"strings"
	"testing"
)

// chunkWith is a chunk frame whose raw_data is a string of n bytes.
func chunkWith(n int) []byte {
	return []byte(`{"chunk":{"action_id":"act_1","sequence":3,"kind":"data","data":{"hermes_sse":{"raw_data":"` +
		strings.Repeat(`\"x`, n/3) + `","data":{"choices":[]},"terminal":false}}}}`)
}

// allocated is how many bytes a call allocates, measured over several.
func allocated(t *testing.T, f func()) float64 {
	t.Helper()
	const runs = 20
	f()
	var before, after runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return float64(after.TotalAlloc-before.TotalAlloc) / runs
}

// TestRawDataCostsNothing: half of every chunk is a second copy of its data.
// It must not be built unless it was asked for by name.
func TestRawDataCostsNothing(t *testing.T) {
	const size = 3 << 18
	short, long := chunkWith(0), chunkWith(size)
	decode := func(data []byte, d Decoding) func() {
		return func() {
			if _, err := DecodeFollowItem(data, d); err != nil {
				t.Fatal(err)
			}
		}
	}
	base := testing.AllocsPerRun(50, decode(short, Decoding{}))
	if skipped := testing.AllocsPerRun(50, decode(long, Decoding{})); skipped > base {
		t.Errorf("%.0f allocations with a long raw_data that is skipped, %.0f with an empty one", skipped, base)
	}
	bytesBase, bytesSkipped, bytesKept := allocated(t, decode(short, Decoding{})), allocated(t, decode(long, Decoding{})), allocated(t, decode(long, Decoding{Raw: true}))
	if extra := bytesSkipped - bytesBase; extra > size/100 {
		t.Errorf("a raw_data of %d bytes that is skipped allocates %.0f of them", size, extra)
	}
	// The measure itself works: a raw_data that is kept is seen.
	if extra := bytesKept - bytesBase; extra < size/3 {
		t.Errorf("a raw_data that is kept allocates only %.0f bytes, so the test measures nothing", extra)
	}
}

// bigResult writes a result with n frames, each with a raw_data of rawBytes,
// and the copy of the whole output in its message.
func bigResult(n, rawBytes int) io.Reader {
	pr, pw := io.Pipe()
	go func() {
		var b bytes.Buffer
		events := func() {
			b.WriteString(`"events":[`)
			for i := range n {
				if i > 0 {
					b.WriteByte(',')
				}
				fmt.Fprintf(&b, `{"data":{"choices":[{"index":0,"delta":{"content":"word%05d "},"finish_reason":null}]},"raw_data":"%s","terminal":false}`, i, strings.Repeat("r", rawBytes))
				if b.Len() > 1<<16 {
					_, _ = b.WriteTo(pw)
				}
			}
			b.WriteString(`],"text":"all","terminal":true,"truncated":false`)
		}
		b.WriteString(`{"body":{"action_result":{"action_id":"act_1","status":"completed","output":{"endpoint_id":"lab","operation":"chat_stream","http_status":200,`)
		events()
		b.WriteString(`},"message":[{"type":"text","text":"all"},{"type":"json","data":{`)
		events()
		b.WriteString(`}}]}}}`)
		_, err := b.WriteTo(pw)
		pw.CloseWithError(err)
	}()
	return pr
}

// TestAResultOf35000Frames is read frame by frame as it comes: in order, each
// once, and nothing of them stays behind.
func TestAResultOf35000Frames(t *testing.T) {
	const n = 35_000
	next, wrong := 0, 0
	reply, err := DecodeReply(bigResult(n, 100), ResultDecoding{OnFrame: func(i int, f Frame) error {
		if i != next || f.Raw != "" || !bytes.Contains(f.Data, fmt.Appendf(nil, `word%05d `, i)) {
			wrong++
		}
		next++
		return nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	if next != n || wrong != 0 {
		t.Errorf("%d frames came, %d of them not as they should", next, wrong)
	}
	out := reply.Result.Output
	if out.Events != n || !out.HasEvents || out.Text != "all" || out.Terminal == nil || !*out.Terminal || len(out.Rest) != 0 {
		t.Errorf("the output is %+v", out)
	}
	if len(reply.Result.Texts) != 1 || reply.Result.Texts[0] != "all" {
		t.Errorf("the message's texts are %q", reply.Result.Texts)
	}
}

// TestFramesOfAResultAreNotGathered compares what two results allocate that
// differ in their raw_data only: a decoder that kept the frames, or the copy
// in the message, would pay for it.
func TestFramesOfAResultAreNotGathered(t *testing.T) {
	decode := func(rawBytes int) func() {
		body, err := io.ReadAll(bigResult(500, rawBytes))
		if err != nil {
			t.Fatal(err)
		}
		return func() {
			if _, err := DecodeReply(iotestReader{bytes.NewReader(body)}, ResultDecoding{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	small, large := allocated(t, decode(10)), allocated(t, decode(4000))
	if large > 2*small {
		t.Errorf("with 10 bytes of raw_data a frame the result allocates %.0f bytes, with 4000 it does %.0f", small, large)
	}
}

// iotestReader hides that the source is in memory, and hands it out in small
// pieces, as a connection does.
type iotestReader struct{ r io.Reader }

func (r iotestReader) Read(p []byte) (int, error) {
	return r.r.Read(p[:min(len(p), 1500)])
}
