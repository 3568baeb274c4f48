package devserver

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// maxStored is how many responses one provider keeps.
const maxStored = 100

// provider is the Hermes server behind one endpoint id: what it keeps, and what
// it was told to refuse. Each endpoint is an instance of its own. A response
// that one of them keeps is unknown to every other, and to another Server.
type provider struct {
	mu       sync.Mutex
	requests int                        // runs asked for so far
	order    []string                   // ids of the kept responses, least recently used first
	kept     map[string]json.RawMessage // by id
	refusals []int                      // statuses of the next answers about kept responses
	deletes  int                        // DELETE requests that were carried out
}

func newProvider() *provider { return &provider{kept: map[string]json.RawMessage{}} }

// request counts a run that the provider is asked for.
func (p *provider) request() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.requests++
	return p.requests
}

// keep stores the object under its id, as its most recently used one. What is
// above the bound goes, least recently used first; nothing goes by age.
func (p *provider) keep(id string, object json.RawMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.kept[id] = object
	p.use(id)
	for len(p.order) > maxStored {
		delete(p.kept, p.order[0])
		p.order = p.order[1:]
	}
}

// use makes id the most recently used one; it needs mu.
func (p *provider) use(id string) {
	p.order = append(slices.DeleteFunc(p.order, func(old string) bool { return old == id }), id)
}

// get answers GET of one response: its object as it was last stored, and 200,
// else a status alone. A read that finds it counts as a use.
func (p *provider) get(id string) (json.RawMessage, int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if status := p.refusal(); status != 0 {
		return nil, status
	}
	object, ok := p.kept[id]
	if !ok {
		return nil, http.StatusNotFound
	}
	p.use(id)
	return object, http.StatusOK
}

// remove answers DELETE of one response. There is no replay here: the second
// one finds nothing.
func (p *provider) remove(id string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if status := p.refusal(); status != 0 {
		return status
	}
	if _, ok := p.kept[id]; !ok {
		return http.StatusNotFound
	}
	delete(p.kept, id)
	p.order = slices.DeleteFunc(p.order, func(old string) bool { return old == id })
	p.deletes++
	return http.StatusOK
}

// refusal takes the next refusal, 0 when there is none; it needs mu.
func (p *provider) refusal() int {
	if len(p.refusals) == 0 {
		return 0
	}
	status := p.refusals[0]
	p.refusals = p.refusals[1:]
	return status
}

// responseObject is a stored response as the provider writes it.
type responseObject struct {
	ID        string          `json:"id"`
	Object    string          `json:"object"`
	Status    string          `json:"status"`
	CreatedAt json.RawMessage `json:"created_at"`
	Model     json.RawMessage `json:"model"`
	Output    json.RawMessage `json:"output"`
	Error     json.RawMessage `json:"error,omitempty"`
	Usage     json.RawMessage `json:"usage,omitempty"`
}

// responseWriter is the side of the provider that stores what it writes. With
// `store` it keeps a snapshot in_progress right after response.created, never
// touches it while text flows, and replaces it by the object of the last event.
// An answer that is no stream is stored when it is there.
type responseWriter struct {
	provider *provider
	begun    bool // a snapshot was stored that an end has to replace
}

// responseWriter returns the writer of one run; nil for an operation that makes
// no response, and for a run that is not to be kept.
func (p *provider) responseWriter(sc *Scenario, input json.RawMessage) *responseWriter {
	makes := sc.Operation == "responses" || sc.Operation == "responses_stream"
	if !makes || sc.play.stored.forgets || !keepsResponse(input) {
		return nil
	}
	return &responseWriter{provider: p}
}

// wrote is called with each block the provider writes, before anybody reads it.
func (w *responseWriter) wrote(block []byte) {
	if w == nil {
		return
	}
	if raw, terminal := responseIn(block); raw != nil {
		w.provider.keep(idOf(raw), raw)
		w.begun = !terminal
	}
}

// responseIn finds the response object in a block: the block itself when it is
// no event, else that of the events that carry one; nil where there is none.
// Terminal says whether it is the last state of the response.
func responseIn(block []byte) (object json.RawMessage, terminal bool) {
	object, terminal = readJSON(string(block))
	if !terminal {
		f, ok, err := parseFrame(block)
		if !ok || err != nil {
			return nil, false
		}
		h := newHermesFrame(f)
		object, terminal = h.fields["response"], h.Terminal
	}
	if idOf(object) == "" {
		return nil, false
	}
	return object, terminal
}

func idOf(object json.RawMessage) string {
	id, _ := stringValue(members(object)["id"])
	return id
}

// left is what becomes of the snapshot when the reader went away before the
// end: the run goes on to its end unseen, and is then stored as incomplete, with
// its output and usage. When that end is not in the recording, the snapshot says
// in_progress for ever.
func (s *Server) left(w *responseWriter, rest recording, at time.Duration) {
	if w == nil || !w.begun {
		return
	}
	for _, block := range rest {
		raw, terminal := responseIn(block.data)
		var object responseObject
		if !terminal || json.Unmarshal(raw, &object) != nil {
			continue
		}
		object.Status, object.Error = "incomplete", nil
		end := func() { w.provider.keep(object.ID, encode(object)) }
		if s.opts.Speed <= 0 {
			end()
			return
		}
		s.after(s.scaled(block.at-at), end)
	}
}

// keepsResponse reads `store` from what the provider gets of an input: a member
// body alone when there is one, else the whole input. A body inside that body is
// unwrapped once more. Absent, and what is no truth value, means yes.
func keepsResponse(input json.RawMessage) bool {
	in := members(input)
	for range 2 {
		if body := members(in["body"]); body != nil {
			in = body
		}
	}
	raw := in["store"]
	if text, ok := stringValue(raw); ok {
		return !slices.Contains([]string{"false", "0", "no", "off"}, strings.ToLower(strings.TrimSpace(text)))
	}
	var number float64
	if json.Unmarshal(raw, &number) == nil && string(raw) != "null" {
		return number != 0
	}
	return string(raw) != "false"
}

// KeepResponse stores an object at the endpoint as its provider would have. The
// object needs an id; KeepResponse panics without one, and for an endpoint that
// is none, since both are mistakes of a test.
func (s *Server) KeepResponse(endpoint string, object json.RawMessage) {
	id := idOf(object)
	if id == "" {
		panic("devserver: the response has no id")
	}
	s.provider(endpoint).keep(id, object)
}

// StoredResponses returns the ids that the endpoint's provider keeps, least
// recently used first.
func (s *Server) StoredResponses(endpoint string) []string {
	p := s.provider(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.order)
}

// ForgetResponses empties the store of the endpoint's provider, as a restart
// does when its store was only in memory.
func (s *Server) ForgetResponses(endpoint string) {
	p := s.provider(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.order, p.kept = nil, map[string]json.RawMessage{}
}

// RefuseResponses makes the endpoint's provider answer the next requests for
// stored responses, reads and deletions alike, with these statuses, one each. A
// request that is refused changes nothing. Later ones are answered again.
func (s *Server) RefuseResponses(endpoint string, statuses ...int) {
	p := s.provider(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refusals = append(p.refusals, statuses...)
}

// Deletes returns how many deletions the endpoint's provider carried out, those
// whose answer was lost or wrong included.
func (s *Server) Deletes(endpoint string) int {
	p := s.provider(endpoint)
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.deletes
}

func (s *Server) provider(endpoint string) *provider {
	p, ok := s.providers[endpoint]
	if !ok {
		panic("devserver: there is no endpoint " + endpoint)
	}
	return p
}
