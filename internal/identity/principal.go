package identity

import (
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/aipctl/aipctl/internal/fault"
)

// Principal is who a person says to be, as KIND:ID.
type Principal struct {
	Kind string // human, agent, service, tenant, customer, contact or system
	rest string // what follows the first colon
}

var principalKinds = map[string]bool{"human": true, "agent": true, "service": true, "tenant": true, "customer": true, "contact": true, "system": true}

// ParsePrincipal reads KIND:ID. Errors are of class [fault.Usage].
func ParsePrincipal(s string) (Principal, error) {
	kind, rest, ok := strings.Cut(s, ":")
	switch {
	case !ok || rest == "" || !utf8.ValidString(s) || strings.ContainsFunc(s, func(r rune) bool { return unicode.IsSpace(r) || !unicode.IsPrint(r) }):
		return Principal{}, fault.New(fault.Usage, "usage.principal", "%s is no principal", quote(s)).
			WithHint("write KIND:ID, such as human:example:reviewer")
	case !principalKinds[kind]:
		return Principal{}, fault.New(fault.Usage, "usage.principal", "%s is no kind of principal", quote(kind)).
			WithHint("a principal is KIND:ID, where KIND is human, agent, service, tenant, customer, contact or system")
	}
	return Principal{Kind: kind, rest: rest}, nil
}

// ID spells the id. By custom an id begins with its kind, human:example:reviewer,
// and then writing the kind once is enough; custom says whether this daemon's
// ids do. One that is written with its kind twice is taken as it stands.
func (p Principal) ID(custom bool) string {
	if custom && !strings.HasPrefix(p.rest, p.Kind+":") {
		return p.Kind + ":" + p.rest
	}
	return p.rest
}
