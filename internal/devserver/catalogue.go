package devserver

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// Discovery says how a place of discovery answers.
type Discovery int

const (
	// DiscoveryOn answers with what the daemon offers.
	DiscoveryOn Discovery = iota
	// DiscoveryOff is a daemon without that place: 404. The catalogue says that
	// it is disabled, the manifest nothing at all.
	DiscoveryOff
	// DiscoveryUnavailable answers 503.
	DiscoveryUnavailable
	// DiscoveryRefused is a catalogue that shows itself only to a token with a
	// tenant: 403. A manifest is open to everybody and answers as if on.
	DiscoveryRefused
)

// offer is a capability as discovery shows it.
type offer struct {
	scenario       Scenario
	capability     json.RawMessage
	contractDigest string
	schemaDigest   string
}

// offers returns what the daemon offers, in the order of the documentation. The
// capabilities are the same from daemon to daemon, and much work to write, so
// they are written once.
func (s *Server) offers() []offer {
	list := make([]offer, len(s.served))
	for i, sc := range s.served {
		list[i] = offerOf(sc, s.opts.ApprovalTTL)
		if schema := s.opts.Schemas[sc.CapabilityID()]; schema != nil {
			c := capability(sc, s.opts.ApprovalTTL)
			c["input_schema"] = schema
			list[i].capability, list[i].schemaDigest = encode(c), digest(schema)
		}
	}
	return list
}

// offerKey is everything that a written capability depends on.
type offerKey struct {
	id, summary string
	approval    bool
	ttl         time.Duration
	key         KeyTerms
}

var offersWritten sync.Map // offerKey to offer

func offerOf(sc Scenario, ttl time.Duration) offer {
	key := offerKey{sc.CapabilityID(), sc.Summary, sc.needsApproval(), ttl, sc.keyTerms()}
	if written, ok := offersWritten.Load(key); ok {
		return written.(offer)
	}
	c := capability(sc, ttl)
	o := offer{
		scenario: sc, capability: encode(c),
		contractDigest: digest(encode(c["contract"])), schemaDigest: digest(sc.contract().inputSchema()),
	}
	offersWritten.Store(key, o)
	return o
}

// Bounds of a catalogue query.
const (
	catalogueLimit     = 100
	maxCatalogueLimit  = 200
	maxCatalogueText   = 512
	maxCatalogueCursor = 2048
)

var catalogueParams = []string{"limit"}

// cataloguePage is the CapabilityPage object. It is bare, and its last cursor is
// a null that is written.
type cataloguePage struct {
	Revision     uint64         `json:"catalog_revision"`
	Capabilities []catalogueRow `json:"capabilities"`
	NextCursor   *string        `json:"next_cursor"`
	Total        int            `json:"total"`
}

type catalogueRow struct {
	Capability     json.RawMessage `json:"capability"`
	ContractDigest string          `json:"contract_digest"`
	SchemaDigest   string          `json:"schema_digest"`
}

// catalogue is the list of capabilities in pages. Its errors have a form of
// their own, without an envelope, and it alone answers 404, 403 and 409.
func (s *Server) catalogue(w http.ResponseWriter, r *request) {
	switch s.opts.Catalogue {
	case DiscoveryOff:
		catalogueError(w, http.StatusNotFound, "disabled", "", "")
		return
	case DiscoveryUnavailable:
		catalogueError(w, http.StatusServiceUnavailable, "unavailable", "message", "the catalogue cannot be read")
		return
	case DiscoveryRefused:
		catalogueError(w, http.StatusForbidden, "tenant_required", "principal_id", r.caller.ID)
		return
	}
	limit, bad := catalogueQuery(r.query)
	if bad != "" {
		catalogueError(w, http.StatusBadRequest, "invalid_query", "message", bad)
		return
	}
	found := slices.DeleteFunc(s.offers(), func(o offer) bool { return !o.answers(r.query) })
	revision, offset := s.revision.Load(), 0
	if cursor := r.query.Get("cursor"); cursor != "" {
		at, ok := parseCatalogueCursor(cursor)
		switch {
		case !ok || at.query != queryOf(r.query):
			catalogueError(w, http.StatusBadRequest, "invalid_query", "message", "the cursor is none of this query")
			return
		case at.revision != revision:
			catalogueError(w, http.StatusConflict, "stale_cursor", "message", "the catalogue has changed")
			return
		}
		offset = at.offset
	}
	page := cataloguePage{Revision: revision, Capabilities: []catalogueRow{}, Total: len(found)}
	from := min(offset, len(found))
	to := min(from+limit, len(found))
	for _, o := range found[from:to] {
		page.Capabilities = append(page.Capabilities, catalogueRow{o.capability, o.contractDigest, o.schemaDigest})
	}
	if to < len(found) {
		next := catalogueCursor{revision, to, queryOf(r.query)}.String()
		page.NextCursor = &next
	}
	writeJSON(w, http.StatusOK, page)
}

// catalogueError writes an error with at most one member beside its code.
func catalogueError(w http.ResponseWriter, status int, code, key, value string) {
	e := map[string]string{"code": "connector_catalog." + code}
	if key != "" {
		e[key] = value
	}
	writeJSON(w, status, map[string]any{"error": e})
}

// catalogueQuery checks a query and returns its limit, or what is wrong with it.
func catalogueQuery(q params) (limit int, bad string) {
	for _, name := range []string{"capability_id", "text", "profile"} {
		if n := len(q.Get(name)); q.Has(name) && (n < 1 || n > maxCatalogueText) {
			return 0, name + " is empty or too long"
		}
	}
	if len(q.Get("cursor")) > maxCatalogueCursor {
		return 0, "the cursor is too long"
	}
	if !q.Has("limit") {
		return catalogueLimit, ""
	}
	if n := q.limit(); n <= maxCatalogueLimit && q.Get("limit") != "0" {
		return n, ""
	}
	return 0, fmt.Sprintf("the limit is not 1 to %d", maxCatalogueLimit)
}

// answers reports whether a capability is one that the query asks for: by its
// exact id, by the profile of its binding, by a text in its id, name or
// description.
func (o offer) answers(q params) bool {
	sc := o.scenario
	id, text, profile := q.Get("capability_id"), strings.ToLower(q.Get("text")), q.Get("profile")
	return (id == "" || id == sc.CapabilityID()) && (profile == "" || profile == bindingProfile) &&
		strings.Contains(strings.ToLower(sc.CapabilityID()+"\n"+sc.Name+"\n"+sc.Summary), text)
}

// queryOf is what a cursor is bound to beside the revision.
func queryOf(q params) string {
	return digest([]byte(q.Get("capability_id") + "\n" + q.Get("text") + "\n" + q.Get("profile")))[:16]
}

// catalogueCursor is a decoded cursor. Clients see an opaque text.
type catalogueCursor struct {
	revision uint64
	offset   int
	query    string
}

func (c catalogueCursor) String() string {
	return base64.RawURLEncoding.EncodeToString(fmt.Appendf(nil, "%d %d %s", c.revision, c.offset, c.query))
}

func parseCatalogueCursor(text string) (c catalogueCursor, ok bool) {
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return c, false
	}
	n, err := fmt.Sscanf(string(raw), "%d %d %s", &c.revision, &c.offset, &c.query)
	return c, err == nil && n == 3 && c.offset >= 0
}

// ReviseCatalogue makes a new revision of the catalogue, of the same content.
// Every cursor handed out before is stale.
func (s *Server) ReviseCatalogue() { s.revision.Add(1) }
