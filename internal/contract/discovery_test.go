package contract

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
)

// net is a daemon that answers for its catalogue and its manifest.
type net struct {
	catalogue func(q aip.CapabilityQuery) (*aip.CapabilityPage, error)
	manifest  func(id string) (*aip.Manifest, error)
	asked     []string
}

func (n *net) Capabilities(_ context.Context, q aip.CapabilityQuery) (*aip.CapabilityPage, error) {
	n.asked = append(n.asked, strings.TrimSpace("catalogue "+q.CapabilityID+q.Cursor))
	return n.catalogue(q)
}

func (n *net) Manifest(_ context.Context, id string) (*aip.Manifest, error) {
	n.asked = append(n.asked, strings.TrimSpace("manifest "+id))
	return n.manifest(id)
}

func caps(ids ...string) []aip.Capability {
	var out []aip.Capability
	for _, id := range ids {
		out = append(out, aip.Capability{ID: id})
	}
	return out
}

func ids(l *Listing) string {
	if l == nil {
		return ""
	}
	out := []string{string(l.Source)}
	for _, c := range l.Capabilities {
		out = append(out, c.ID)
	}
	return strings.Join(out, " ")
}

func refuses(status int, code string) error {
	e := &aip.RemoteError{Status: status, Form: aip.FormHTML}
	if code != "" {
		e.Form, e.Proto = aip.FormPlain, &aip.ProtocolError{Code: code}
	}
	return e
}

func serves(ids ...string) func(aip.CapabilityQuery) (*aip.CapabilityPage, error) {
	return func(aip.CapabilityQuery) (*aip.CapabilityPage, error) {
		return &aip.CapabilityPage{Revision: "1", Capabilities: caps(ids...)}, nil
	}
}

func fails(err error) func(aip.CapabilityQuery) (*aip.CapabilityPage, error) {
	return func(aip.CapabilityQuery) (*aip.CapabilityPage, error) { return nil, err }
}

func shows(ids ...string) func(string) (*aip.Manifest, error) {
	return func(string) (*aip.Manifest, error) {
		return &aip.Manifest{Version: "v", Capabilities: caps(ids...)}, nil
	}
}

func hides(err error) func(string) (*aip.Manifest, error) {
	return func(string) (*aip.Manifest, error) { return nil, err }
}

var (
	unreached = &client.TransportError{NoConnection: true, What: "the connection was refused"}
	disabled  = refuses(404, "connector_catalog.disabled")
	tenant    = refuses(403, "connector_catalog.tenant_required")
	token     = refuses(401, "auth.native_http_unauthorized")
)

// TestWhoAnswersForAList: the catalogue, else the manifest, else a word why
// neither did, with the class of the first that was there.
func TestWhoAnswersForAList(t *testing.T) {
	for name, c := range map[string]struct {
		catalogue func(aip.CapabilityQuery) (*aip.CapabilityPage, error)
		manifest  func(string) (*aip.Manifest, error)
		want      string
		class     fault.Class
		word      string
		requests  int
	}{
		"the catalogue":              {serves("a", "b"), nil, "catalogue a b", fault.Accepted, "", 1},
		"an empty catalogue":         {serves(), nil, "catalogue", fault.Accepted, "", 1},
		"it is switched off":         {fails(disabled), shows("m"), "manifest m", fault.Accepted, "switched off", 2},
		"the token has no tenant":    {fails(tenant), shows("m"), "manifest m", fault.Accepted, "no tenant", 2},
		"the token is refused":       {fails(token), shows("m"), "manifest m", fault.Accepted, "refused the token", 2},
		"both off":                   {fails(disabled), hides(refuses(404, "")), "", fault.Unavailable, "there is no manifest at this address", 2},
		"no daemon at all":           {fails(refuses(404, "")), hides(refuses(404, "")), "", fault.Unavailable, "there is no catalogue at this address", 2},
		"refused, and no manifest":   {fails(token), hides(refuses(404, "")), "", fault.Auth, "refused the token", 2},
		"no tenant, and no manifest": {fails(tenant), hides(refuses(500, "")), "", fault.Auth, "bound to no tenant", 2},
		"forbidden":                  {fails(refuses(403, "")), hides(refuses(403, "")), "", fault.Auth, "is forbidden", 2},
		"off, and the manifest 503":  {fails(disabled), hides(refuses(503, "")), "", fault.Unavailable, "the manifest is not available now", 2},
		"both 5xx":                   {fails(refuses(503, "connector_catalog.unavailable")), hides(refuses(500, "")), "", fault.Unavailable, "HTTP 503, connector_catalog.unavailable", 2},
		"a page of something else":   {fails(refuses(200, "")), hides(refuses(200, "")), "", fault.Unavailable, "something else answered in place of the catalogue: HTTP 200 with an HTML page", 2},
		"nobody is there":            {fails(unreached), nil, "", fault.Unavailable, "the connection was refused", 1},
		"the question is refused":    {fails(refuses(400, "connector_catalog.invalid_query")), hides(refuses(400, "query.invalid")), "", fault.Usage, "refused the question", 2},
		"it cannot be read":          {fails(errors.New("capability page: the answer has no capabilities")), hides(refuses(404, "")), "", fault.Unavailable, "cannot be read", 2},
	} {
		n := &net{catalogue: c.catalogue, manifest: c.manifest}
		list, err := List(t.Context(), n)
		if got := ids(list); got != c.want || fault.ClassOf(err) != c.class || len(n.asked) != c.requests {
			t.Errorf("%s: %q %v (%v), asked %q", name, got, err, fault.ClassOf(err), n.asked)
		}
		said := ""
		if err != nil {
			said = err.Error()
		} else if list.Missed != nil {
			said = list.Missed.Message
		}
		if !strings.Contains(said, c.word) || (c.word == "") != (said == "") {
			t.Errorf("%s: says %q, want %q", name, said, c.word)
		}
		if f := fault.As(err); f != nil && f.Hint == "" {
			t.Errorf("%s: names no next step", name)
		}
	}
}

// TestWhereOneCapabilityIsFound: a daemon may publish it in either place, and
// only a source that is not there at all hides nothing.
func TestWhereOneCapabilityIsFound(t *testing.T) {
	for name, c := range map[string]struct {
		catalogue func(aip.CapabilityQuery) (*aip.CapabilityPage, error)
		manifest  func(string) (*aip.Manifest, error)
		want      string
		class     fault.Class
		requests  int
	}{
		"in the catalogue":                   {serves("x", "a", "x"), nil, "catalogue x", fault.Accepted, 1},
		"in the manifest alone":              {serves("a"), shows("x"), "manifest x", fault.Accepted, 2},
		"in neither":                         {serves("a"), shows("b"), "", fault.NotFound, 2},
		"not in the catalogue, no manifest":  {serves("a"), hides(refuses(404, "")), "", fault.NotFound, 2},
		"switched off":                       {fails(disabled), shows("x", "y"), "manifest x", fault.Accepted, 2},
		"switched off, not in the manifest":  {fails(disabled), shows("y"), "", fault.NotFound, 2},
		"token refused, not in the manifest": {fails(token), shows("y"), "", fault.Auth, 2},
		"no tenant, not in the manifest":     {fails(tenant), shows(), "", fault.Auth, 2},
		"unavailable, not in the manifest":   {fails(refuses(503, "")), shows("y"), "", fault.Unavailable, 2},
		"unavailable, in the manifest":       {fails(refuses(503, "")), shows("x"), "manifest x", fault.Accepted, 2},
		"nobody is there":                    {fails(unreached), nil, "", fault.Unavailable, 1},
		"a daemon that ignores the question": {serves("a", "b", "x"), nil, "catalogue x", fault.Accepted, 1},
	} {
		n := &net{catalogue: c.catalogue, manifest: c.manifest}
		list, err := Find(t.Context(), n, "x")
		if got := ids(list); got != c.want || fault.ClassOf(err) != c.class || len(n.asked) != c.requests || n.asked[0] != "catalogue x" {
			t.Errorf("%s: %q %v (%v), asked %q", name, got, err, fault.ClassOf(err), n.asked)
		}
	}
}

// paged is a catalogue of pages, whose cursors go stale when told to.
func paged(stales ...int) func(aip.CapabilityQuery) (*aip.CapabilityPage, error) {
	requests := 0
	return func(q aip.CapabilityQuery) (*aip.CapabilityPage, error) {
		requests++
		for _, s := range stales {
			if s == requests {
				return nil, refuses(409, "connector_catalog.stale_cursor")
			}
		}
		n := 0
		if q.Cursor != "" {
			_, _ = fmt.Sscanf(q.Cursor, "p%d", &n)
		}
		p := &aip.CapabilityPage{Capabilities: caps(fmt.Sprintf("c%d", n), "everywhere")}
		if n < 3 {
			p.NextCursor = fmt.Sprintf("p%d", n+1)
		}
		return p, nil
	}
}

// TestAllPagesAreRead, a stale cursor begins anew, once, and nothing is
// listed twice.
func TestAllPagesAreRead(t *testing.T) {
	const all = "catalogue c0 everywhere c1 c2 c3"
	for name, c := range map[string]struct {
		stales []int
		want   string
		asked  string
	}{
		"four pages":         {nil, all, "catalogue, catalogue p1, catalogue p2, catalogue p3"},
		"stale in between":   {[]int{3}, all, "catalogue, catalogue p1, catalogue p2, catalogue, catalogue p1, catalogue p2, catalogue p3"},
		"stale twice":        {[]int{2, 4}, "", "catalogue, catalogue p1, catalogue, catalogue p1, manifest"},
		"stale at the first": {[]int{1}, all, "catalogue, catalogue, catalogue p1, catalogue p2, catalogue p3"},
	} {
		n := &net{catalogue: paged(c.stales...), manifest: hides(refuses(404, ""))}
		list, err := List(t.Context(), n)
		if got := ids(list); got != c.want || strings.Join(n.asked, ", ") != c.asked || (err == nil) != (c.want != "") {
			t.Errorf("%s: %q %v, asked %q", name, got, err, n.asked)
		}
		if err != nil && (fault.ClassOf(err) != fault.Unavailable || !strings.Contains(err.Error(), "changed twice")) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestACatalogueWithoutAnEndIsLeft: pages in a circle, and pages for ever.
func TestACatalogueWithoutAnEndIsLeft(t *testing.T) {
	n := 0
	for word, next := range map[string]func() string{
		"in a circle":            func() string { n++; return fmt.Sprint(n % 3) },
		"more pages than can be": func() string { n++; return fmt.Sprint(n) },
	} {
		n = 0
		d := &net{catalogue: func(aip.CapabilityQuery) (*aip.CapabilityPage, error) {
			return &aip.CapabilityPage{NextCursor: next()}, nil
		}, manifest: hides(refuses(404, ""))}
		if _, err := List(t.Context(), d); err == nil || !strings.Contains(err.Error(), word) || len(d.asked) > maxPages+1 {
			t.Errorf("%v after %d requests", err, len(d.asked))
		}
	}
	d := &net{catalogue: func(q aip.CapabilityQuery) (*aip.CapabilityPage, error) {
		var many []string
		for i := range 5000 {
			many = append(many, q.Cursor+fmt.Sprint("-", i))
		}
		n++
		return &aip.CapabilityPage{Capabilities: caps(many...), NextCursor: fmt.Sprint(n)}, nil
	}, manifest: hides(refuses(404, ""))}
	if _, err := List(t.Context(), d); err == nil || !strings.Contains(err.Error(), "more capabilities") || len(d.asked) > 7 {
		t.Errorf("%v after %d requests", err, len(d.asked))
	}
}

// TestWhatIsPublishedStandsInPlaceOfWhatIsBuiltIn, as far as it says anything.
func TestWhatIsPublishedStandsInPlaceOfWhatIsBuiltIn(t *testing.T) {
	yes := true
	for name, c := range map[string]struct {
		operation string
		published aip.Capability
		timeout   time.Duration
		key       bool
		approval  bool
		mode      string
		modes     string
	}{
		"nothing is said":   {"response_delete", aip.Capability{}, time.Minute, true, false, "sync", ""},
		"a timeout":         {"chat_stream", aip.Capability{Contract: &aip.CapabilityContract{Timeout: time.Hour}}, time.Hour, false, false, "streaming", ""},
		"a key":             {"chat", aip.Capability{Contract: &aip.CapabilityContract{Idempotency: &aip.Idempotency{Requirement: "required"}}}, time.Minute, true, false, "sync", ""},
		"no key any more":   {"run_start", aip.Capability{Contract: &aip.CapabilityContract{Idempotency: &aip.Idempotency{Requirement: "optional"}}}, time.Minute, false, false, "sync", ""},
		"a human":           {"chat", aip.Capability{HumanApproval: &yes}, time.Minute, false, true, "sync", ""},
		"a policy":          {"chat", aip.Capability{Contract: &aip.CapabilityContract{Approval: &aip.ApprovalDemand{Required: true}}}, time.Minute, false, true, "sync", ""},
		"streaming is gone": {"chat_stream", aip.Capability{Contract: &aip.CapabilityContract{Execution: &aip.Execution{Sync: true, Async: true}}}, 5 * time.Minute, false, false, "sync", "sync async"},
		"only async":        {"x", aip.Capability{Contract: &aip.CapabilityContract{Execution: &aip.Execution{Async: true, Expected: "async"}}}, time.Minute, false, false, "async", "async"},
		"what is expected":  {"chat", aip.Capability{Contract: &aip.CapabilityContract{Execution: &aip.Execution{Async: true, Streaming: true, Expected: "async"}}}, time.Minute, false, false, "async", "async streaming"},
		"no mode at all":    {"chat", aip.Capability{Contract: &aip.CapabilityContract{Execution: &aip.Execution{}}}, time.Minute, false, false, "sync", ""},
	} {
		got := Builtin(c.operation).With(c.published, Catalogue)
		if got.Timeout != c.timeout || got.KeyRequired != c.key || got.Approval != c.approval || got.Mode != c.mode || strings.Join(got.Modes(), " ") != c.modes || got.Source != Catalogue {
			t.Errorf("%s: %+v", name, got)
		}
		if !got.Allows(got.Mode) || c.modes != "" && got.Allows("streaming") != strings.Contains(c.modes, "streaming") {
			t.Errorf("%s: allows the wrong modes: %+v", name, got)
		}
	}
}

// TestPeekListsNothing: one entry of the catalogue tells that it answers.
func TestPeekListsNothing(t *testing.T) {
	n := &net{catalogue: paged(), manifest: shows("m")}
	if l, err := Peek(t.Context(), n); err != nil || l.Source != Catalogue || len(n.asked) != 1 {
		t.Errorf("%+v %v after %q", l, err, n.asked)
	}
	n = &net{catalogue: fails(disabled), manifest: shows("m")}
	if l, err := Peek(t.Context(), n); err != nil || ids(l) != "manifest m" || l.Missed == nil {
		t.Errorf("%+v %v", l, err)
	}
	n = &net{catalogue: fails(disabled), manifest: hides(refuses(404, ""))}
	if l, err := Peek(t.Context(), n); fault.ClassOf(err) != fault.Unavailable {
		t.Errorf("%+v %v", l, err)
	}
}
