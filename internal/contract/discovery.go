package contract

import (
	"context"
	"errors"
	"net/http"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
)

// Source says where a contract comes from.
type Source string

// The sources, in the order in which they are asked.
const (
	Catalogue Source = "catalogue"
	Manifest  Source = "manifest"
	BuiltIn   Source = "built-in"
)

// The bounds of a catalogue: more than any daemon has, and less than for ever.
const (
	pageSize        = 200 // the most that a daemon gives
	maxPages        = 500
	maxCapabilities = 20_000
)

// Net is the part of the client that discovery needs.
type Net interface {
	Capabilities(ctx context.Context, q aip.CapabilityQuery) (*aip.CapabilityPage, error)
	Manifest(ctx context.Context, capabilityID string) (*aip.Manifest, error)
}

// Listing is what a daemon offers, or one of it.
type Listing struct {
	Source       Source
	Revision     string // of the catalogue
	Capabilities []aip.Capability
	// Missed is why the catalogue did not answer, when Source is Manifest.
	Missed *fault.Error
}

// List reads the whole catalogue, else the manifest. Where neither answers the
// error says why of both, with the class of the first that was there at all.
func List(ctx context.Context, net Net) (*Listing, error) {
	list, missed := catalogue(ctx, net, aip.CapabilityQuery{Limit: pageSize})
	if missed == nil {
		return list, nil
	}
	m, f := manifest(ctx, net, "", missed)
	if f != nil {
		return nil, f
	}
	return &Listing{Source: Manifest, Capabilities: m.Capabilities, Missed: missed}, nil
}

// Find looks for one capability in the catalogue, and then in the manifest: a
// daemon may publish a capability in either. The error is of class
// [fault.NotFound] when it is in neither; when the catalogue could not be asked
// and may know it, the class is the catalogue's.
func Find(ctx context.Context, net Net, id string) (*Listing, error) {
	list, missed := catalogue(ctx, net, aip.CapabilityQuery{CapabilityID: id, Limit: pageSize})
	if missed == nil {
		if c, ok := pick(list.Capabilities, id); ok {
			list.Capabilities = []aip.Capability{c}
			return list, nil
		}
	}
	m, f := manifest(ctx, net, id, missed)
	if f != nil && missed != nil {
		return nil, f
	}
	if m != nil {
		if c, ok := pick(m.Capabilities, id); ok {
			return &Listing{Source: Manifest, Capabilities: []aip.Capability{c}, Missed: missed}, nil
		}
	}
	switch {
	case missed == nil:
		return nil, fault.New(fault.NotFound, "capability.not_found", "%s is neither in the catalogue nor in the manifest", id)
	case absent(missed):
		return nil, fault.New(fault.NotFound, "capability.not_found", "%s is not in the manifest, and there is no catalogue: %s", id, missed.Message)
	}
	return nil, fault.New(missed.Class, missed.Code, "%s is not in the manifest, and the catalogue, which may know it, did not answer: %s", id, missed.Message).
		WithHint("%s", missed.Hint).Wrap(missed.Err)
}

func pick(list []aip.Capability, id string) (aip.Capability, bool) {
	for _, c := range list {
		if c.ID == id {
			return c, true
		}
	}
	return aip.Capability{}, false
}

// absent says that there is no catalogue, so that nothing can be hidden in it.
func absent(missed *fault.Error) bool { return missed.Class == fault.NotFound }

// catalogue reads all pages of a query. A cursor that went stale restarts the
// reading once: the catalogue has changed under it.
func catalogue(ctx context.Context, net Net, q aip.CapabilityQuery) (*Listing, *fault.Error) {
	list, err := pages(ctx, net, q)
	if stale(err) {
		list, err = pages(ctx, net, q)
	}
	if err != nil {
		return nil, missing("catalogue", err)
	}
	return list, nil
}

func stale(err error) bool {
	var remote *aip.RemoteError
	return errors.As(err, &remote) && (remote.Status == http.StatusConflict || remote.Code() == "connector_catalog.stale_cursor")
}

func pages(ctx context.Context, net Net, q aip.CapabilityQuery) (*Listing, error) {
	list := &Listing{Source: Catalogue}
	seen, asked := map[string]bool{}, map[string]bool{}
	for range maxPages {
		page, err := net.Capabilities(ctx, q)
		if err != nil {
			return nil, err
		}
		list.Revision = page.Revision
		for _, c := range page.Capabilities {
			if !seen[c.ID] {
				seen[c.ID] = true
				list.Capabilities = append(list.Capabilities, c)
			}
		}
		switch {
		case page.NextCursor == "":
			return list, nil
		case asked[page.NextCursor]:
			return nil, errors.New("its pages lead in a circle")
		case len(list.Capabilities) > maxCapabilities:
			return nil, errors.New("it has more capabilities than can be meant")
		}
		asked[page.NextCursor] = true
		q.Cursor = page.NextCursor
	}
	return nil, errors.New("it has more pages than can be meant")
}

// manifest reads the manifest after the catalogue was missed, for whatever
// reason; nil when the catalogue answered.
func manifest(ctx context.Context, net Net, id string, missed *fault.Error) (*aip.Manifest, *fault.Error) {
	if missed != nil && missed.Code == codeUnreached {
		return nil, missed // the daemon is not there, and would not be a second time
	}
	m, err := net.Manifest(ctx, id)
	if err == nil {
		return m, nil
	}
	f := missing("manifest", err)
	if missed == nil {
		return nil, f
	}
	first := missed
	if absent(missed) {
		first = f
	}
	if absent(first) {
		first = fault.New(fault.Unavailable, first.Code, "").WithHint("%s", hintURL)
	}
	return nil, fault.New(first.Class, first.Code, "neither the catalogue nor the manifest answered: %s; %s", missed.Message, f.Message).
		WithHint("%s", first.Hint).Wrap(err)
}

const (
	codeUnreached = "discovery.unreached"
	hintURL       = "is the URL the daemon's own, with its path prefix? `aipctl doctor` looks at each part"
	hintToken     = "give the daemon's token with --token-file; `aipctl doctor` looks at each part"
)

// missing says in words why a source did not answer. Class NotFound is for a
// source that is not there at all.
func missing(source string, err error) *fault.Error {
	say := func(class fault.Class, code, hint, format string, args ...any) *fault.Error {
		return fault.New(class, code, format, args...).WithHint("%s", hint).Wrap(err)
	}
	var remote *aip.RemoteError
	var transport *client.TransportError
	switch {
	case errors.As(err, &transport):
		return say(fault.Unavailable, codeUnreached, hintURL, "the daemon did not answer for its %s: %s", source, transport.What)
	case !errors.As(err, &remote):
		return say(fault.Unavailable, "discovery.unreadable", hintURL, "the %s cannot be read: %s", source, err.Error())
	case remote.Status == http.StatusUnauthorized:
		return say(fault.Auth, "discovery.refused", hintToken, "the daemon refused the token for its %s (%s)", source, remote.Error())
	case remote.Code() == "connector_catalog.tenant_required":
		return say(fault.Auth, "discovery.tenant", "ask whoever runs the daemon for a token with a tenant", "the token is bound to no tenant, which the catalogue wants (%s)", remote.Error())
	case remote.Status == http.StatusForbidden:
		return say(fault.Auth, "discovery.refused", hintToken, "the %s is forbidden to this token (%s)", source, remote.Error())
	case remote.Code() == "connector_catalog.disabled":
		return say(fault.NotFound, "discovery.disabled", "whoever runs the daemon can switch it on", "the catalogue of this daemon is switched off (%s)", remote.Error())
	case remote.Status == http.StatusNotFound:
		return say(fault.NotFound, "discovery.absent", hintURL, "there is no %s at this address (%s)", source, remote.Error())
	case stale(err):
		return say(fault.Unavailable, "discovery.stale", "try again", "the catalogue changed twice while it was read (%s)", remote.Error())
	case remote.Status == http.StatusBadRequest:
		return say(fault.Usage, "discovery.query", "check the capability id where one is named; `aipctl doctor` looks at each part", "the daemon refused the question for its %s (%s)", source, remote.Error())
	case remote.Status >= 500 || remote.Status == http.StatusTooManyRequests:
		return say(fault.Unavailable, "discovery.unavailable", "try again; `aipctl doctor` looks at each part", "the %s is not available now (%s)", source, remote.Error())
	}
	return say(fault.Unavailable, "discovery.foreign", hintURL, "something else answered in place of the %s: %s", source, remote.Error())
}

// Peek asks for the first capability of the catalogue, else for the manifest:
// it says what answers, and lists nothing whole.
func Peek(ctx context.Context, net Net) (*Listing, error) {
	page, err := net.Capabilities(ctx, aip.CapabilityQuery{Limit: 1})
	if err == nil {
		return &Listing{Source: Catalogue, Revision: page.Revision, Capabilities: page.Capabilities}, nil
	}
	missed := missing("catalogue", err)
	m, f := manifest(ctx, net, "", missed)
	if f != nil {
		return nil, f
	}
	return &Listing{Source: Manifest, Capabilities: m.Capabilities, Missed: missed}, nil
}
