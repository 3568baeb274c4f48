package cmd

import (
	"context"
	"slices"

	"github.com/aipctl/aipctl/internal/engine"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
)

// eventLines shows lifecycle events on stdout: where no answer was asked for,
// they are the answer.
type eventLines struct{ *render.Renderer }

// Event implements the engine's sink.
func (s *eventLines) Event(e record.Event) error { return s.Line(eventLine(e)) }

func eventLine(e record.Event) sanitize.Text {
	return sanitize.Format("%s  %s  %s", sanitize.LineMax(e.OccurredAt, 40), sanitize.LineMax(e.Kind, 60), sanitize.LineMax(string(e.Data), 200))
}

// eventDocument is the one document of action events -o json.
type eventDocument struct {
	record.Head
	ActionID string         `json:"action_id"`        // whose events they are
	Events   []record.Event `json:"events"`           // in the order of the daemon
	Chunks   []record.Chunk `json:"chunks,omitempty"` // only with --include-chunks
}

// eventCollector gathers what a reading of pages brings.
type eventCollector struct {
	*render.Renderer
	doc eventDocument
}

// Event implements the engine's sink.
func (s *eventCollector) Event(e record.Event) error {
	s.doc.Events = append(s.doc.Events, e)
	return nil
}

// Deliver implements the engine's sink.
func (s *eventCollector) Deliver(d record.Delivery) error {
	s.doc.Chunks = append(s.doc.Chunks, d.Chunk)
	return nil
}

// listEvents reads the pages once. There is no verdict, so there is no
// outcome.
func (r *run) listEvents(ctx context.Context, out *render.Renderer, cfg engine.Config, plan engine.FollowPlan) error {
	var collector *eventCollector
	switch {
	case r.opts.output == "json":
		collector = &eventCollector{Renderer: out, doc: eventDocument{Head: record.NewHead("events"), ActionID: plan.ActionID, Events: []record.Event{}}}
		cfg.Sink = collector
	case r.opts.output == "text" && !plan.Chunks:
		cfg.Sink = &eventLines{out}
	}
	return r.drive(ctx, out, func() (int, error) {
		if _, err := engine.Events(ctx, cfg, plan); err != nil {
			return 0, err
		}
		if collector != nil {
			collector.doc.Events = slices.Clip(collector.doc.Events)
			return 0, out.Record(collector.doc)
		}
		return 0, out.Close()
	})
}
