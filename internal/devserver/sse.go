package devserver

import (
	"bytes"
	"strings"
	"unicode/utf8"
)

// Bounds of the connector on what a provider may send.
const (
	maxSSEFrame  = 1 << 20  // bytes of one frame
	maxSSEStream = 64 << 20 // bytes of one response body
)

// streamFault says why a provider stream cannot be read on. It becomes the
// connector error invalid_response.
type streamFault string

func (f streamFault) Error() string { return string(f) }

// sseFrame is one provider frame. Event and id are nil when the frame had no
// such field; nothing is remembered from one frame to the next.
type sseFrame struct {
	event, id *string
	data      string
	hasData   bool
}

// sseReader cuts provider bytes into frames by the connector's rules, which are
// looser than the SSE standard: a frame may consist of a name or an id alone, a
// lone CR ends no line, a mixed blank line (LF CR LF) ends no frame, and a tail
// without a blank line is still a frame.
type sseReader struct {
	pending []byte
	total   int
}

// write takes the next bytes of the body.
func (r *sseReader) write(b []byte) error {
	r.total += len(b)
	if r.total > maxSSEStream {
		return streamFault("response exceeded the configured bound")
	}
	r.pending = append(r.pending, b...)
	return nil
}

// next returns the next complete frame; false when more bytes are needed.
// Blocks without any known field are passed over.
func (r *sseReader) next() (sseFrame, bool, error) {
	for {
		end, width := frameEnd(r.pending)
		if end < 0 {
			if len(r.pending) > maxSSEFrame {
				return sseFrame{}, false, streamFault("a frame exceeded the configured bound")
			}
			return sseFrame{}, false, nil
		}
		if end > maxSSEFrame {
			return sseFrame{}, false, streamFault("a frame exceeded the configured bound")
		}
		frame, ok, err := parseFrame(r.pending[:end])
		r.pending = r.pending[end+width:]
		if ok || err != nil {
			return frame, ok, err
		}
	}
}

// tail returns the bytes left at the end of the body as one last frame.
func (r *sseReader) tail() (sseFrame, bool, error) {
	rest := r.pending
	r.pending = nil
	return parseFrame(rest)
}

// frameEnd finds the earliest blank line: its offset and width, or -1.
func frameEnd(b []byte) (int, int) {
	lf, crlf := bytes.Index(b, []byte("\n\n")), bytes.Index(b, []byte("\r\n\r\n"))
	if crlf >= 0 && (lf < 0 || crlf < lf) {
		return crlf, 4
	}
	return lf, 2
}

func parseFrame(b []byte) (frame sseFrame, ok bool, err error) {
	if !utf8.Valid(b) {
		return sseFrame{}, false, streamFault("an SSE frame is not valid UTF-8")
	}
	var data []string
	for line := range strings.SplitSeq(string(b), "\n") {
		line = strings.TrimRight(line, "\r")
		if line == "" || line[0] == ':' {
			continue
		}
		name, value, _ := strings.Cut(line, ":")
		value = strings.TrimPrefix(value, " ")
		switch name {
		case "event":
			frame.event = &value
		case "id":
			frame.id = &value
		case "data":
			data = append(data, value)
		}
	}
	frame.data, frame.hasData = strings.Join(data, "\n"), len(data) > 0
	return frame, frame.hasData || frame.event != nil || frame.id != nil, nil
}
