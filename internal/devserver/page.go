package devserver

import (
	"fmt"
	"strconv"
	"strings"
)

// maxPageBytes ends a page of events early. Chunks have no such bound.
const maxPageBytes = 4 << 20

// position is a decoded event cursor: an offset into the daemon-global log, and
// the last chunk sequence that was delivered.
type position struct {
	offset  int
	seq     uint64
	haveSeq bool
	text    string // as the reader sent it
}

func (p position) String() string {
	if !p.haveSeq {
		return fmt.Sprintf("aev_cursor_%d_none", p.offset)
	}
	return fmt.Sprintf("aev_cursor_%d_%d", p.offset, p.seq)
}

// parsePosition reads a cursor of the action routes. The global form
// evt_cursor_N is accepted and resets the chunk position.
func parsePosition(text string) (position, *protocolError) {
	invalid := newError("aip-runtime", permanent, "query.invalid_cursor", "the cursor has no known form").
		with(map[string]string{"cursor": text})
	if rest, ok := strings.CutPrefix(text, "evt_cursor_"); ok {
		if n, err := strconv.ParseUint(rest, 10, 62); err == nil {
			return position{offset: int(n), text: text}, nil
		}
		return position{}, invalid
	}
	rest, ok := strings.CutPrefix(text, "aev_cursor_")
	offset, seq, both := strings.Cut(rest, "_")
	n, err := strconv.ParseUint(offset, 10, 62)
	if !ok || !both || err != nil {
		return position{}, invalid
	}
	if seq == "none" {
		return position{offset: int(n), text: text}, nil
	}
	s, err := strconv.ParseUint(seq, 10, 64)
	if err != nil {
		return position{}, invalid
	}
	return position{offset: int(n), seq: s, haveSeq: true, text: text}, nil
}

// pageQuery asks for one page of an action's events and chunks.
type pageQuery struct {
	actionID string
	kinds    []string // of events; empty is every kind
	chunks   bool
	limit    int // of events and chunks together
}

// page is the ActionEvents object.
type page struct {
	ActionID string   `json:"action_id"`
	Events   []event  `json:"events"`
	Chunks   []chunk  `json:"chunks,omitempty"`
	Cursor   position `json:"-"`
	Terminal bool     `json:"terminal"`
}

func (p page) empty() bool { return len(p.Events) == 0 && len(p.Chunks) == 0 }

// page reads events, then chunks into the room that is left, then the state.
// The three are separate reads, as at the daemon: what is stored between them is
// missed by this page although it may already say terminal. Terminal speaks of
// the action, never of the page.
func (st *store) page(q pageQuery, from position) (page, *protocolError) {
	p := page{ActionID: q.actionID, Cursor: from}
	var err *protocolError
	if p.Events, p.Cursor.offset, err = st.eventsFrom(q, from); err != nil {
		return page{}, err
	}
	if room := q.limit - len(p.Events); q.chunks && room > 0 {
		p.Chunks = st.chunksAfter(q.actionID, from, room)
		if n := len(p.Chunks); n > 0 {
			p.Cursor.seq, p.Cursor.haveSeq = p.Chunks[n-1].Sequence, true
		}
	}
	p.Terminal = terminalState(st.state(q.actionID))
	return p, nil
}

// eventsFrom returns the action's events at and behind an offset, and the
// offset to go on from, which moves over the events of others too.
func (st *store) eventsFrom(q pageQuery, from position) ([]event, int, *protocolError) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if from.offset > len(st.events) {
		e := newError("aip-runtime", permanent, "stream.cursor_expired", "the cursor lies beyond the event log")
		return nil, 0, e.with(map[string]any{"cursor": from.text, "available_events": len(st.events)})
	}
	found, size := []event{}, 0
	for i, ev := range st.events[from.offset:] {
		if ev.ActionID != q.actionID || !selectsKind(q.kinds, ev.Kind) {
			continue
		}
		size += len(encode(ev))
		if len(found) == q.limit || size > maxPageBytes {
			return found, from.offset + i, nil
		}
		found = append(found, ev)
	}
	return found, len(st.events), nil
}

func selectsKind(kinds []string, kind string) bool {
	for _, k := range kinds {
		if k == kind {
			return true
		}
	}
	return len(kinds) == 0
}

func (st *store) chunksAfter(actionID string, from position, room int) []chunk {
	st.mu.Lock()
	defer st.mu.Unlock()
	log := st.chunks[actionID]
	for i, c := range log {
		if !from.haveSeq || c.Sequence > from.seq {
			return log[i:min(i+room, len(log)):min(i+room, len(log))]
		}
	}
	return nil
}
