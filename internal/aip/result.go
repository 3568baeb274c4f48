package aip

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"slices"

	"github.com/go-json-experiment/json/jsontext"
)

// The statuses of an ActionResult. The last two are not terminal.
const (
	StatusCompleted       = "completed"
	StatusFailed          = "failed"
	StatusCancelled       = "cancelled"
	StatusPendingApproval = "pending_approval"
	StatusRequiresHuman   = "requires_human"
)

// ActionResult is the outcome as the daemon states it. ActionID may name
// another action: an idempotent replay answers with the original.
type ActionResult struct {
	ActionID string
	Status   string
	Output   *Output
	Error    *ProtocolError
	Usage    jsontext.Value
	Receipt  jsontext.Value
	Texts    []string // text parts of message, for results without an aggregate
}

// Output is ActionResult.output. For the streaming operations it is the
// aggregate of all provider frames; its events go to
// [ResultDecoding.OnFrame] one by one and are not kept here.
type Output struct {
	EndpointID string
	Operation  string
	HTTPStatus uint64
	HasEvents  bool // there was an events array
	Events     int  // its length
	Text       string
	Terminal   *bool
	Truncated  *bool
	Rest       map[string]jsontext.Value // every other member, as it came
	Scalar     jsontext.Value            // an output that is no object
}

// Aggregate reports whether the output has the shape of a stream aggregate.
func (o *Output) Aggregate() bool {
	return o != nil && (o.HasEvents || o.Terminal != nil || o.Truncated != nil)
}

// Member returns a member of the output that has no field of its own; empty
// when absent, null or false.
func (o *Output) Member(name string) jsontext.Value {
	if o == nil {
		return nil
	}
	v := o.Rest[name]
	if k := v.Kind(); k == 'n' || k == 'f' {
		return nil
	}
	return v
}

// Has reports whether the output has a member of that name that is not null.
func (o *Output) Has(name string) bool {
	return o != nil && len(o.Rest[name]) > 0 && o.Rest[name].Kind() != 'n'
}

// String returns a string member of the output; empty when absent.
func (o *Output) String(name string) string {
	s, _ := Unquote(o.Member(name))
	return s
}

// Object writes the members that have no field of their own back into one
// object: the provider's JSON of an operation that does not stream.
func (o *Output) Object() jsontext.Value {
	if o == nil {
		return nil
	}
	if o.Scalar != nil {
		return o.Scalar
	}
	out := []byte{'{'}
	for _, name := range slices.Sorted(maps.Keys(o.Rest)) {
		if len(out) > 1 {
			out = append(out, ',')
		}
		out, _ = jsontext.AppendQuote(out, name)
		out = append(append(out, ':'), o.Rest[name]...)
	}
	return append(out, '}')
}

// Ack is the answer to an async submit. It promises "queued" and no more.
type Ack struct {
	ActionID   string
	Status     string
	RetryAfter *uint64 // milliseconds
}

// Reply is what a submit or a result route answered, whatever wrapped it: an
// envelope, a bare tagged body, or an error in any of its nestings.
type Reply struct {
	Enveloped   bool
	Result      *ActionResult
	Ack         *Ack
	Error       *ProtocolError
	EventStream bool // the answer to an approval decision, and Events what it holds
	Events      []Event
	Other       string // key of a body that is none of the above
}

// ResultDecoding says how a result is read.
type ResultDecoding struct {
	Decoding
	// OnFrame is called for each entry of output.events in order, starting
	// with index 0; an entry that is null or no object is passed as an empty
	// frame, so that positions hold. An error stops the decoding.
	OnFrame func(index int, f Frame) error
}

// DecodeReply reads a reply from r as it comes: frame by frame, without ever
// holding the whole of a result, whose frames stand in it four times over.
func DecodeReply(r io.Reader, d ResultDecoding) (*Reply, error) {
	reply := new(Reply)
	dec := jsontext.NewDecoder(r, lenient...)
	if err := d.body(dec, reply); err != nil {
		return nil, fmt.Errorf("reply: %w", err)
	}
	return reply, nil
}

func (d ResultDecoding) body(dec *jsontext.Decoder, reply *Reply) error {
	return object(dec, func(name string) (err error) {
		switch name {
		case "body":
			if dec.PeekKind() != '{' {
				return dec.SkipValue()
			}
			reply.Enveloped = true
			return d.body(dec, reply)
		case "action_result":
			reply.Result, err = d.result(dec)
		case "ack":
			reply.Ack, err = ack(dec)
		case "error":
			reply.Error, err = protocolError(dec)
		case "event_stream":
			reply.EventStream = true
			reply.Events, err = d.events(dec)
		case "aip_version", "message_type", "message_id", "sent_at", "session_id", "correlation_id",
			"in_response_to", "idempotency_key", "from", "to", "trace", "security", "extensions":
			err = dec.SkipValue()
		default:
			reply.Other = name
			err = dec.SkipValue()
		}
		return err
	})
}

// events reads the events of an answer whose exact form nobody promises: what
// cannot be read is left out.
func (d Decoding) events(dec *jsontext.Decoder) ([]Event, error) {
	v, err := value(dec)
	if err != nil {
		return nil, err
	}
	var out []Event
	entries, _ := Elements(Member(v, "events"))
	for _, entry := range entries {
		if e, err := d.event(jsontext.NewDecoder(bytes.NewBuffer(entry), lenient...)); err == nil && e != nil {
			out = append(out, *e)
		}
	}
	return out, nil
}

func ack(dec *jsontext.Decoder) (*Ack, error) {
	if dec.PeekKind() != '{' {
		return nil, dec.SkipValue()
	}
	a := new(Ack)
	err := object(dec, func(name string) (err error) {
		switch name {
		case "action_id":
			a.ActionID, err = str(dec)
		case "status":
			a.Status, err = str(dec)
		case "retry_after_ms":
			a.RetryAfter, err = unsigned(dec)
		default:
			err = dec.SkipValue()
		}
		return err
	})
	return a, err
}

func (d ResultDecoding) result(dec *jsontext.Decoder) (*ActionResult, error) {
	if dec.PeekKind() != '{' {
		return nil, dec.SkipValue()
	}
	res := new(ActionResult)
	err := object(dec, func(name string) (err error) {
		switch name {
		case "action_id":
			res.ActionID, err = str(dec)
		case "status":
			res.Status, err = str(dec)
		case "output":
			res.Output, err = d.output(dec)
		case "error":
			res.Error, err = protocolError(dec)
		case "usage":
			res.Usage, err = value(dec)
		case "receipt":
			res.Receipt, err = value(dec)
		case "message":
			err = messageTexts(dec, res)
		default:
			err = dec.SkipValue()
		}
		return err
	})
	return res, err
}

func (d ResultDecoding) output(dec *jsontext.Decoder) (*Output, error) {
	switch dec.PeekKind() {
	case 'n':
		return nil, dec.SkipValue()
	case '{':
	default:
		v, err := value(dec)
		return &Output{Scalar: v}, err
	}
	out := &Output{Rest: map[string]jsontext.Value{}}
	err := object(dec, func(name string) (err error) {
		switch name {
		case "endpoint_id":
			out.EndpointID, err = str(dec)
		case "operation":
			out.Operation, err = str(dec)
		case "http_status":
			var n *uint64
			if n, err = unsigned(dec); n != nil {
				out.HTTPStatus = *n
			}
		case "text":
			if k := dec.PeekKind(); k == '{' || k == '[' { // a provider's object has another use for the name
				out.Rest[name], err = value(dec)
				break
			}
			out.Text, err = str(dec)
		case "terminal":
			out.Terminal, err = boolean(dec)
		case "truncated":
			out.Truncated, err = boolean(dec)
		case "events":
			if dec.PeekKind() != '[' {
				return dec.SkipValue()
			}
			out.HasEvents = true
			err = d.frames(dec, out)
		default:
			out.Rest[name], err = value(dec)
		}
		return err
	})
	return out, err
}

func (d ResultDecoding) frames(dec *jsontext.Decoder, out *Output) error {
	return array(dec, func() error {
		var f *Frame
		var err error
		if dec.PeekKind() == '{' {
			f, err = d.Frame(dec)
		} else {
			f, err = new(Frame), dec.SkipValue()
		}
		if err != nil {
			return err
		}
		i := out.Events
		out.Events++
		if d.OnFrame == nil {
			return nil
		}
		return d.OnFrame(i, *f)
	})
}

// messageTexts keeps the text parts and skips the json part, which repeats
// the whole output.
func messageTexts(dec *jsontext.Decoder, res *ActionResult) error {
	if dec.PeekKind() != '[' {
		return dec.SkipValue()
	}
	return array(dec, func() error {
		if dec.PeekKind() != '{' {
			return dec.SkipValue()
		}
		var kind, text string
		err := object(dec, func(name string) (err error) {
			switch name {
			case "type":
				kind, err = str(dec)
			case "text":
				text, err = str(dec)
			default:
				err = dec.SkipValue()
			}
			return err
		})
		if kind == "text" && text != "" {
			res.Texts = append(res.Texts, text)
		}
		return err
	})
}
