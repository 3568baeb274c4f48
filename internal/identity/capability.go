package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/fault"
)

// Capability is a capability id taken apart.
type Capability struct {
	System    string // second part of a cap: id, such as hermes_agent; empty for ids of another form
	Endpoint  string // third part; empty unless the id has four parts
	Operation string // fourth part; empty unless the id has four parts
	ID        string // the whole id, as it is sent
}

const hermesPrefix = "cap:hermes_agent:"

func isEndpoint(s string) bool { return MadeOf(s, 128, "_-") }

func isOperation(s string) bool { return MadeOf(s, 128, "_.-") }

// ParseCapability takes a capability id apart. An id of the Hermes connector
// has to be cap:hermes_agent:ENDPOINT:OPERATION, with an endpoint of 1 to 128 of
// [A-Za-z0-9_-]; the protocol says nothing about other ids but that they are
// not empty, so they pass as they are. A bare operation is no id. Errors are
// of class [fault.Usage].
func ParseCapability(s string) (Capability, error) {
	switch {
	case strings.TrimSpace(s) == "":
		return Capability{}, fault.New(fault.Usage, "usage.capability", "a capability id is missing").
			WithHint("`aipctl capability list` shows what the daemon offers")
	case !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return Capability{}, fault.New(fault.Usage, "usage.capability", "the capability id %s holds white space or an unprintable character", quote(s)).
			WithHint("`aipctl capability list` shows what the daemon offers")
	case !strings.Contains(s, ":"):
		return Capability{}, fault.New(fault.Usage, "usage.capability", "%s is an operation, not a capability id: the endpoint is missing", quote(s)).
			WithHint("add --endpoint ENDPOINT, or write cap:hermes_agent:ENDPOINT:%s", printable(s))
	}
	c := Capability{ID: s}
	parts := strings.Split(s, ":")
	if parts[0] == "cap" && len(parts) > 1 {
		c.System = parts[1]
	}
	if len(parts) == 4 && parts[0] == "cap" {
		c.Endpoint, c.Operation = parts[2], parts[3]
	}
	if c.System != "hermes_agent" {
		return c, nil
	}
	switch {
	case len(parts) == 4 && c.Endpoint == "" && isOperation(c.Operation):
		return Capability{}, fault.New(fault.Usage, "usage.capability", "the capability id %s has an empty endpoint", quote(s)).
			WithHint("name the endpoint with --endpoint ENDPOINT, or write cap:hermes_agent:ENDPOINT:%s", c.Operation)
	case len(parts) == 3 && isOperation(parts[2]):
		return Capability{}, fault.New(fault.Usage, "usage.capability", "the capability id %s has no endpoint", quote(s)).
			WithHint("name the endpoint with --endpoint ENDPOINT, or write cap:hermes_agent:ENDPOINT:%s", parts[2])
	case len(parts) != 4:
		return Capability{}, fault.New(fault.Usage, "usage.capability", "the capability id %s has %d parts where cap:hermes_agent:ENDPOINT:OPERATION has four", quote(s), len(parts)).
			WithHint("`aipctl capability list` shows what the daemon offers")
	case !isEndpoint(c.Endpoint):
		return Capability{}, badEndpoint(c.Endpoint)
	case !isOperation(c.Operation):
		return Capability{}, fault.New(fault.Usage, "usage.capability", "the capability id %s does not end in an operation", quote(s)).
			WithHint("`aipctl capability list` shows what the daemon offers")
	}
	return c, nil
}

// QualifyCapability builds a capability id from an argument and the value of
// --endpoint, which may be empty. With an endpoint, a bare operation chat means
// cap:hermes_agent:ENDPOINT:chat, and the empty or missing endpoint of an id is
// filled in.
// The endpoint is trimmed and lower-cased, as the connector does. A whole id
// together with another endpoint is refused. Errors are of class [fault.Usage].
func QualifyCapability(arg, endpoint string) (Capability, error) {
	if endpoint == "" {
		return ParseCapability(arg)
	}
	name := strings.ToLower(strings.TrimSpace(endpoint))
	if !isEndpoint(name) {
		return Capability{}, badEndpoint(endpoint)
	}
	if op, ok := strings.CutPrefix(arg, hermesPrefix); ok {
		op = strings.TrimPrefix(op, ":") // cap:hermes_agent::chat, or without the empty part
		if !strings.Contains(op, ":") {
			arg = op
		}
	}
	if arg != "" && !strings.Contains(arg, ":") {
		if !isOperation(arg) {
			return Capability{}, fault.New(fault.Usage, "usage.capability", "%s is no operation", quote(arg)).
				WithHint("give one such as chat_stream; `aipctl capability list` shows what the daemon offers")
		}
		return ParseCapability(hermesPrefix + name + ":" + arg)
	}
	c, err := ParseCapability(arg)
	if err != nil {
		return Capability{}, err
	}
	if c.System != "hermes_agent" || !strings.EqualFold(c.Endpoint, name) {
		return Capability{}, fault.New(fault.Usage, "usage.capability", "the capability id %s does not go with --endpoint %s", quote(arg), name).
			WithHint("give --endpoint with a bare operation, or leave it out")
	}
	return c, nil
}

func badEndpoint(s string) error {
	return fault.New(fault.Usage, "usage.endpoint", "%s is no endpoint: it has 1 to 128 letters, digits, underscores or hyphens", quote(s)).
		WithHint("name one with --endpoint ENDPOINT")
}
