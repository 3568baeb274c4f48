package client

import (
	"errors"
	"slices"
	"strings"
	"sync"

	"github.com/aipctl/aipctl/internal/aip"
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
	if e != nil && c.shown.in(e.Code) {
		e.Code = ""
	}
}
