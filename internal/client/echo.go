package client

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json/jsontext"
)

// leastEcho is how long a token has to be, in bytes, for its text in an answer
// to be an echo: a shorter one may stand in a word of the protocol by chance.
const leastEcho = 8

// shown is every token that was sent, in lower case: media types and hosts are
// read without their case. It is safe for concurrent use.
type shown struct {
	mu     sync.Mutex
	tokens []string
}

func (s *shown) add(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if t := strings.ToLower(token); len(t) >= leastEcho && !slices.Contains(s.tokens, t) {
		s.tokens = append(s.tokens, t)
	}
}

// in reports whether text repeats one of them.
func (s *shown) in(text string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	text = strings.ToLower(text)
	return slices.ContainsFunc(s.tokens, func(t string) bool { return strings.Contains(text, t) })
}

// unnamed stands for the target of a redirect that is not shown.
const unnamed = "an unnamed place"

// unecho takes words out of an error that repeat a token. Of an answer only
// codes, types and hosts are ever shown or recorded, and none of the three has a
// use for a token; what is left says as much as an answer without them.
func (c *Client) unecho(err error) error {
	var remote *aip.RemoteError
	if !errors.As(err, &remote) {
		return err
	}
	c.unechoCode(remote.Proto)
	if c.shown.in(remote.ContentType) {
		remote.ContentType = ""
	}
	if c.shown.in(remote.Redirect) {
		remote.Redirect = unnamed
	}
	return err
}

func (c *Client) unechoCode(e *aip.ProtocolError) {
	if e == nil {
		return
	}
	if c.shown.in(e.Code) {
		e.Code = ""
	}
	if c.shown.in(e.Spelling) {
		e.Spelling = ""
	}
}

// unechoStatus does the same to the words of a durable view. A state that is
// taken out of it is none that anybody knows.
func (c *Client) unechoStatus(st *aip.ActionStatus) {
	for _, s := range []*string{
		&st.ActionID, &st.CapabilityID, &st.State, &st.QueuedState, &st.ResultStatus, &st.ApprovalID,
		&st.StartedAt, &st.UpdatedAt, &st.CompletedAt,
	} {
		if c.shown.in(*s) {
			*s = ""
		}
	}
	if st.State == "" {
		st.State = aip.StateUnknown
	}
	for _, v := range []*jsontext.Value{&st.Retry, &st.Lease} {
		if c.shown.in(string(*v)) {
			*v = nil
		}
	}
}

// Echoes reports whether a word of the daemon repeats a token that was sent to
// it. It is for words that are read elsewhere than here, as those of a stream.
func (c *Client) Echoes(word string) bool { return c.shown.in(word) }
