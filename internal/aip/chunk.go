package aip

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"
)

// The kinds of stream chunks. Only Done and Error are terminal, and neither
// ends the action: the stored result does.
const (
	KindData            = "data"
	KindProgress        = "progress"
	KindTool            = "tool"
	KindThought         = "thought"
	KindPreview         = "preview"
	KindPendingApproval = "pending_approval"
	KindError           = "error"
	KindDone            = "done"
)

// Frame is one provider frame as the connector keeps it (hermes_sse): inside
// a chunk while it streams, and again in the events of the final aggregate.
type Frame struct {
	Event    string         // SSE event name; empty when absent or null
	ID       string         // SSE id; empty when absent or null
	Data     jsontext.Value // parsed data, or a JSON string such as "[DONE]"
	Raw      string         // raw_data, only when asked for
	Terminal bool
}

// Digest covers what two copies of one frame must agree on: event, id, data.
func (f *Frame) Digest() Digest {
	return DigestOf(quoted(f.Event), quoted(f.ID), f.Data)
}

// Chunk is one AIP stream chunk. Exactly one of Frame and Data is set for a
// chunk that carries a payload.
type Chunk struct {
	ActionID string
	Sequence uint64 // from 0 upwards, gaps possible; never the provider's own number
	Kind     string
	Frame    *Frame         // the payload hermes_sse
	Data     jsontext.Value // any other payload, as it came
	Part     jsontext.Value // outer message part, as it came; empty when absent
}

// Terminal reports whether the kind closes the chunk log.
func (c *Chunk) Terminal() bool { return c.Kind == KindDone || c.Kind == KindError }

// Digest covers everything of the chunk but raw_data: two deliveries of one
// sequence are repeats when their digests are equal, else they conflict.
func (c *Chunk) Digest() Digest {
	if c.Frame == nil {
		return DigestOf(quoted(c.Kind), c.Data, c.Part)
	}
	terminal := jsontext.Value("false")
	if c.Frame.Terminal {
		terminal = jsontext.Value("true")
	}
	return DigestOf(quoted(c.Kind), quoted(c.Frame.Event), quoted(c.Frame.ID), c.Frame.Data, terminal, c.Part)
}

func quoted(s string) jsontext.Value {
	if s == "" {
		return nil
	}
	b, _ := jsontext.AppendQuote(nil, s)
	return b
}

// Event is one lifecycle event of an action. Its data is free JSON with
// secret-looking values already replaced by the daemon.
type Event struct {
	ID         string
	Kind       string
	OccurredAt string // RFC 3339 as written
	ActionID   string
	Data       jsontext.Value
}

// Decoding says what a decoder may keep.
type Decoding struct {
	Raw bool // build raw_data; off unless raw frames were asked for by name
}

// FollowItem is the data of one SSE frame of the follow route. Exactly one
// field is set; none is for a shape that is not known.
type FollowItem struct {
	Event      *Event
	Chunk      *Chunk
	NextCursor string
	Terminal   bool
	Error      *ProtocolError
}

// ErrNotJSON says that an SSE frame's data is no JSON object.
var ErrNotJSON = errors.New("frame data is no JSON object")

// DecodeFollowItem reads the data of one SSE frame and tells the three chunk
// shapes apart by their keys: {"event":…}, {"chunk":…}, and a chunk that
// stands bare.
func DecodeFollowItem(data []byte, d Decoding) (FollowItem, error) {
	var item FollowItem
	var bare Chunk
	var bareEvent Event
	var isChunk, isEvent bool
	dec := jsontext.NewDecoder(bytes.NewBuffer(data), lenient...)
	err := object(dec, func(name string) (err error) {
		switch name {
		case "event":
			item.Event, err = d.event(dec)
		case "chunk":
			item.Chunk, err = d.Chunk(dec)
		case "next_cursor":
			item.NextCursor, err = str(dec)
		case "terminal":
			var t *bool
			t, err = boolean(dec)
			item.Terminal = t != nil && *t
		case "error":
			item.Error, err = protocolError(dec)
		case "sequence":
			isChunk = true
			bare.Sequence, err = sequence(dec)
		case "id", "occurred_at":
			isEvent = true
			err = bareEvent.field(dec, name)
		case "kind":
			var k string
			k, err = str(dec)
			bare.Kind, bareEvent.Kind = k, k
		case "action_id":
			var id string
			id, err = str(dec)
			bare.ActionID, bareEvent.ActionID = id, id
		case "data":
			err = d.payload(dec, &bare)
		case "part":
			bare.Part, err = value(dec)
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if err == nil {
		err = end(dec)
	}
	if err != nil {
		return FollowItem{}, fmt.Errorf("%w: %w", ErrNotJSON, err)
	}
	switch {
	case item.Event != nil || item.Chunk != nil || item.NextCursor != "" || item.Error != nil || item.Terminal:
	case isChunk:
		item.Chunk = &bare
	case isEvent:
		bareEvent.Data = bare.Data
		item.Event = &bareEvent
	}
	return item, nil
}

// Chunk reads one StreamChunk object in one pass; nil for null.
func (d Decoding) Chunk(dec *jsontext.Decoder) (*Chunk, error) {
	if dec.PeekKind() == 'n' {
		return nil, dec.SkipValue()
	}
	c := new(Chunk)
	numbered := false
	err := object(dec, func(name string) (err error) {
		switch name {
		case "action_id":
			c.ActionID, err = str(dec)
		case "sequence":
			numbered = true
			c.Sequence, err = sequence(dec)
		case "kind":
			c.Kind, err = str(dec)
		case "data":
			err = d.payload(dec, c)
		case "part":
			c.Part, err = value(dec)
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if err == nil && !numbered {
		// Taken for 0, it would contradict the chunk that has that number.
		err = errors.New("there is no sequence")
	}
	if err != nil {
		return nil, fmt.Errorf("stream chunk: %w", err)
	}
	return c, nil
}

// payload reads chunk.data: a hermes_sse frame, or anything else kept raw.
func (d Decoding) payload(dec *jsontext.Decoder, c *Chunk) error {
	switch dec.PeekKind() {
	case 'n':
		return dec.SkipValue()
	case '{':
	default:
		v, err := value(dec)
		c.Data = v
		return err
	}
	other := []byte{'{'}
	err := object(dec, func(name string) error {
		if name == "hermes_sse" && dec.PeekKind() == '{' {
			f, err := d.Frame(dec)
			c.Frame = f
			return err
		}
		v, err := dec.ReadValue()
		if err != nil {
			return err
		}
		if len(other) > 1 {
			other = append(other, ',')
		}
		other, _ = jsontext.AppendQuote(other, name)
		other = append(append(other, ':'), v...)
		return nil
	})
	if c.Frame == nil {
		c.Data = append(other, '}')
	}
	return err
}

// Frame reads one hermes_sse object in one pass.
func (d Decoding) Frame(dec *jsontext.Decoder) (*Frame, error) {
	f := new(Frame)
	err := object(dec, func(name string) (err error) {
		switch name {
		case "event":
			f.Event, err = str(dec)
		case "id":
			f.ID, err = str(dec)
		case "data":
			f.Data, err = value(dec)
		case "raw_data":
			if !d.Raw {
				return dec.SkipValue()
			}
			f.Raw, err = str(dec)
		case "terminal":
			var t *bool
			t, err = boolean(dec)
			f.Terminal = t != nil && *t
		default:
			err = dec.SkipValue()
		}
		return err
	})
	return f, err
}

func (d Decoding) event(dec *jsontext.Decoder) (*Event, error) {
	if dec.PeekKind() == 'n' {
		return nil, dec.SkipValue()
	}
	e := new(Event)
	err := object(dec, func(name string) error { return e.field(dec, name) })
	return e, err
}

func (e *Event) field(dec *jsontext.Decoder, name string) (err error) {
	switch name {
	case "id":
		e.ID, err = str(dec)
	case "kind":
		e.Kind, err = str(dec)
	case "occurred_at":
		e.OccurredAt, err = str(dec)
	case "action_id":
		e.ActionID, err = str(dec)
	case "data":
		e.Data, err = value(dec)
	default:
		err = dec.SkipValue()
	}
	return err
}

// object reads one JSON object and calls member for each name; member must
// consume the value.
func object(dec *jsontext.Decoder, member func(name string) error) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	if tok.Kind() != '{' {
		return fmt.Errorf("a JSON object is expected, not %s", tok.Kind())
	}
	for dec.PeekKind() != '}' {
		name, err := dec.ReadToken()
		if err != nil {
			return err
		}
		if err := member(name.String()); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
}

// array reads one JSON array and calls element for each entry; null counts as
// an empty one.
func array(dec *jsontext.Decoder, element func() error) error {
	tok, err := dec.ReadToken()
	if err != nil {
		return err
	}
	switch tok.Kind() {
	case 'n':
		return nil
	case '[':
	default:
		return fmt.Errorf("a JSON array is expected, not %s", tok.Kind())
	}
	for dec.PeekKind() != ']' {
		if err := element(); err != nil {
			return err
		}
	}
	_, err = dec.ReadToken()
	return err
}

// end wants nothing but white space behind the value that was read.
func end(dec *jsontext.Decoder) error {
	switch _, err := dec.ReadToken(); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	return errors.New("something stands behind the value")
}

// str reads a string; null and every other kind of value read as empty, for
// a field of the wrong type must not cost the frame around it.
func str(dec *jsontext.Decoder) (string, error) {
	if dec.PeekKind() != '"' {
		return "", dec.SkipValue()
	}
	tok, err := dec.ReadToken()
	if err != nil {
		return "", err
	}
	return tok.String(), nil
}

func boolean(dec *jsontext.Decoder) (*bool, error) {
	switch dec.PeekKind() {
	case 't', 'f':
		tok, err := dec.ReadToken()
		if err != nil {
			return nil, err
		}
		b := tok.Bool()
		return &b, nil
	default:
		return nil, dec.SkipValue()
	}
}

// value copies one value out of the decoder's buffer.
func value(dec *jsontext.Decoder) (jsontext.Value, error) {
	v, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	return v.Clone(), nil
}

// unsigned reads an integer of at most 64 bits digit for digit: a generic
// number would collapse neighbours above 2^53. nil for any other value.
func unsigned(dec *jsontext.Decoder) (*uint64, error) {
	if dec.PeekKind() != '0' {
		return nil, dec.SkipValue()
	}
	v, err := dec.ReadValue()
	if err != nil {
		return nil, err
	}
	n, err := strconv.ParseUint(string(v), 10, 64)
	if err != nil {
		return nil, nil
	}
	return &n, nil
}

func sequence(dec *jsontext.Decoder) (uint64, error) {
	n, err := unsigned(dec)
	if err != nil {
		return 0, err
	}
	if n == nil {
		return 0, errors.New("sequence is no unsigned 64-bit integer")
	}
	return *n, nil
}
