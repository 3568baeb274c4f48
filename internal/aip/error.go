package aip

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// ProtocolError is the daemon's typed error. Only Code is stable enough to
// decide by; Message and Details may repeat prompts, outputs or credentials
// and are never printed as they are.
type ProtocolError struct {
	Code         string // empty where the daemon's is absent or does not have the form of one
	Spelling     string // what stands in the place of a code and has not the form of one
	Message      string
	Category     string // temporary, permanent, auth, policy, economic, connector, transport
	Retryable    *bool  // carries no information for query errors
	RetryAfterMS *uint64
	Details      jsontext.Value
}

// Spelled is the code, or else what stands in its place: the daemon's word to
// the letter. It is for the record of an action's own error, and neither for a
// decision nor for the state file or the text of an error.
func (e *ProtocolError) Spelled() string {
	if e.Code == "" {
		return e.Spelling
	}
	return e.Code
}

// RetryAfter is the delay the daemon asks for; 0 when it asks for none. It is
// bounded at a day, so that no value turns negative.
func (e *ProtocolError) RetryAfter() time.Duration {
	const most = uint64(24 * time.Hour / time.Millisecond)
	if e == nil || e.RetryAfterMS == nil {
		return 0
	}
	return time.Duration(min(*e.RetryAfterMS, most)) * time.Millisecond
}

// Detail returns the member name of the details object; empty when absent,
// null, or when the details are no object.
func (e *ProtocolError) Detail(name string) jsontext.Value {
	if e == nil {
		return nil
	}
	return Member(e.Details, name)
}

// DetailString is Detail for a string member.
func (e *ProtocolError) DetailString(name string) string {
	s, _ := Unquote(e.Detail(name))
	return s
}

// Uncertain reads details.uncertain_outcome: true, false, or nil when the
// daemon does not say.
func (e *ProtocolError) Uncertain() *bool { return Bool(e.Detail("uncertain_outcome")) }

// RemoteStatus reads details.remote_status, the HTTP status that the provider
// gave to the connector; 0 when absent.
func (e *ProtocolError) RemoteStatus() int {
	n, err := unsigned(jsontext.NewDecoder(bytes.NewBuffer(e.Detail("remote_status"))))
	if err != nil || n == nil || *n > 999 {
		return 0
	}
	return int(*n)
}

func protocolError(dec *jsontext.Decoder) (*ProtocolError, error) {
	switch dec.PeekKind() {
	case '{':
	default:
		return nil, dec.SkipValue()
	}
	e := new(ProtocolError)
	var inner *ProtocolError
	err := object(dec, func(name string) (err error) {
		switch name {
		case "error": // the body of an envelope nests the error once more
			inner, err = protocolError(dec)
		case "code":
			if e.Code, err = str(dec); !IsCode(e.Code) {
				e.Code, e.Spelling = "", e.Code // nobody can decide by it
			}
		case "message":
			e.Message, err = str(dec)
		case "category":
			e.Category, err = str(dec)
		case "retryable":
			e.Retryable, err = boolean(dec)
		case "retry_after_ms":
			e.RetryAfterMS, err = unsigned(dec)
		case "details":
			e.Details, err = value(dec)
		default:
			err = dec.SkipValue()
		}
		return err
	})
	if inner != nil {
		return inner, err
	}
	return e, err
}

// Form says what an error body looked like.
type Form string

// The forms of an error body.
const (
	FormEnvelope Form = "envelope" // AIP envelope with body.error.error
	FormPlain    Form = "plain"    // {"error":{"code":…}} without an envelope
	FormJSON     Form = "json"     // some other JSON
	FormText     Form = "text"     // a framework's plain text
	FormHTML     Form = "html"     // a page of something between us and the daemon
	FormEmpty    Form = "empty"
	FormEncoded  Form = "encoded" // in a content encoding that was not asked for
)

// RemoteError is an answer that is not what was asked for. Its Error text
// names status, form and code, and no byte of the body.
type RemoteError struct {
	Status      int
	Form        Form
	ContentType string         // media type only
	Proto       *ProtocolError // set for FormEnvelope, and for FormPlain with a code
	Retry       time.Duration  // what the answer asks us to wait; 0 for nothing
	Date        time.Time      // the server's clock; zero when it sent none
	Redirect    string         // origin of a redirect's target; empty otherwise
	NotStream   bool           // status 200, but no event stream
}

// AIP reports whether the error was written by an AIP daemon, and not by
// something on the way.
func (e *RemoteError) AIP() bool {
	return e.Proto != nil && (e.Form == FormEnvelope || e.Proto.Category != "")
}

// Code is the daemon's error code; empty when the body is not its own.
func (e *RemoteError) Code() string {
	if e.Proto == nil {
		return ""
	}
	return e.Proto.Code
}

// Error implements error.
func (e *RemoteError) Error() string {
	switch {
	case e.Redirect != "":
		return fmt.Sprintf("HTTP %d redirects to %s, which is not followed", e.Status, e.Redirect)
	case e.NotStream:
		return fmt.Sprintf("HTTP %d, but %s instead of an event stream", e.Status, e.what())
	case e.Proto != nil && IsCode(e.Proto.Code):
		return fmt.Sprintf("HTTP %d, %s", e.Status, e.Proto.Code)
	case e.Proto != nil && e.Proto.Code != "":
		return fmt.Sprintf("HTTP %d with an error code that is none", e.Status)
	default:
		return fmt.Sprintf("HTTP %d with %s", e.Status, e.what())
	}
}

// IsCode reports whether s has the form of a dotted code. Anything else in its
// place is text that somebody put there.
func IsCode(s string) bool {
	const most = 128 // bytes; the daemon's own are a third of it
	if s == "" || len(s) > most {
		return false
	}
	for _, c := range []byte(s) {
		if (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (c < '0' || c > '9') && c != '.' && c != '_' && c != '-' {
			return false
		}
	}
	return true
}

func (e *RemoteError) what() string {
	switch e.Form {
	case FormEmpty:
		return "an empty body"
	case FormHTML:
		return "an HTML page"
	case FormText:
		return "plain text"
	case FormEncoded:
		return "a body in an encoding that was not asked for"
	default:
		if e.ContentType != "" {
			return "a body of type " + e.ContentType
		}
		return "an unknown body"
	}
}

// DecodeError reads an error body of any form. It never fails: a body that
// cannot be read is a form too.
func DecodeError(contentType string, body []byte) (*ProtocolError, Form) {
	trimmed := bytes.TrimSpace(body)
	switch {
	case len(trimmed) == 0:
		return nil, FormEmpty
	case strings.Contains(contentType, "html") || trimmed[0] == '<':
		return nil, FormHTML
	case trimmed[0] != '{':
		if jsontext.Value(trimmed).IsValid() {
			return nil, FormJSON
		}
		return nil, FormText
	}
	r, err := DecodeReply(bytes.NewReader(trimmed), ResultDecoding{})
	switch {
	case err != nil:
		return nil, FormText
	case r.Error == nil || r.Error.Code == "":
		return nil, FormJSON
	case r.Enveloped:
		return r.Error, FormEnvelope
	default:
		return r.Error, FormPlain
	}
}
