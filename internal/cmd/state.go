package cmd

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

func newStateCmd(r *run) *cobra.Command {
	return group("state", "Look at and tend the local state file",
		"The state file keeps what was submitted, how far each stream was read, and how\neach action ended. None of these commands uses the network.",
		newStatePathCmd(r), newStateListCmd(r), newStateShowCmd(r), newStateCheckCmd(r), newStateMergeCmd(r), newStatePruneCmd(r))
}

// openState opens the state file of a command that is about nothing else.
func (r *run) openState(out *render.Renderer) (*state.File, error) {
	r.sayState(out)
	f, _, err := r.journal()
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, usageError("state.off", "--state off names no file to look at").WithHint("give a file with --state FILE")
	}
	return f, nil
}

// loaded is a state file that was read for a command about nothing else.
type loaded struct {
	file     *state.File
	view     *state.View
	report   state.Report
	warnings []verdict.Warning // for the one document of -o json; shown already elsewhere
}

// loadState opens the file and reads it, and says what is amiss with it.
func (r *run) loadState(ctx context.Context, out *render.Renderer) (loaded, error) {
	f, err := r.openState(out)
	if err != nil {
		return loaded{}, err
	}
	l := loaded{file: f}
	if l.view, l.report, err = f.Load(ctx); err != nil {
		return loaded{}, err
	}
	l.warnings, err = r.warnState(out, l.report)
	return l, err
}

// warnState says what is amiss with a state file in the way of the format: a
// line on stderr, a record of its own, or what it returns for the document.
// Damage is reported whatever is read by machine.
func (r *run) warnState(out *render.Renderer, report state.Report) ([]verdict.Warning, error) {
	all := warnings("state.damaged", report.Warnings())
	if r.opts.output == "json" {
		return all, nil
	}
	for _, w := range all {
		out.Note(sanitize.Format("warning: %s", sanitize.Line(w.Message)))
		if r.opts.output == "jsonl" {
			if err := out.Record(record.Warning{Head: record.NewHead(record.TypeWarning), Code: w.Code, Message: w.Message}); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil
}

func newStatePathCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "path", Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			out := r.renderer()
			f, err := r.openState(out)
			if err != nil {
				return err
			}
			if err := out.Record(pathRecord{record.NewHead("state_path"), f.Path()}); err != nil {
				return err
			}
			return out.Line(sanitize.Line(f.Path()))
		},
	}, page{
		Purpose: "Print where the state file is",
		About:   `Prints the path that the other commands use.`,
		Never:   `It never looks whether there is a file, and never creates one.`,
		Examples: []example{
			{"where it is", "aipctl state path"},
			{"its records", "jq -c . \"$(aipctl state path)\""},
		},
		Exits: []exit{
			{fault.Accepted, "the path was printed"},
			{fault.State, "nothing names a place for the file"},
		},
		See:     []string{"state list", "state check"},
		Without: []flagGroup{connectionFlags, waitingFlags, answerFlags},
	})
}

// pathRecord says where the state file is.
type pathRecord struct {
	record.Head
	Path string `json:"path"` // of the state file, whether there is one or not
}

// stateRow is one action as state list and state show print it.
type stateRow struct {
	record.Head
	ActionID     string   `json:"action_id"`               // the action's id at its daemon
	At           string   `json:"at"`                      // RFC 3339, of the intent, else of the last record
	CapabilityID string   `json:"capability_id,omitempty"` // what was submitted; absent for an action that was only followed
	URL          string   `json:"url,omitempty"`           // the daemon that it was submitted to
	Condition    string   `json:"condition"`               // a verdict, or unsettled, not_sent, followed
	ResponseIDs  []string `json:"response_ids,omitempty"`  // stored responses that it made or used
	ApprovalIDs  []string `json:"approval_ids,omitempty"`  // approvals that it waited for
	DecisionIDs  []string `json:"decision_ids,omitempty"`  // decisions of this client about them
	ProbeOf      string   `json:"probe_of,omitempty"`      // the action that it was run to learn about
}

// condition says in one word how the file leaves an action.
func condition(a *state.Action) string {
	switch {
	case a.NotSent != nil:
		return "not_sent"
	case a.Settled != nil:
		return a.Settled.Verdict
	case a.Intent == nil:
		return "followed"
	default:
		return "unsettled"
	}
}

// settled reports whether nothing more is to be learnt of an action: a
// verdict that is pending or unknown is none.
func settled(a *state.Action) bool {
	switch condition(a) {
	case "unsettled", "followed", fault.Pending.String(), fault.Unknown.String():
		return false
	}
	return true
}

func rowOf(a *state.Action) stateRow {
	row := stateRow{Head: record.NewHead("state_action"), ActionID: a.ID, Condition: condition(a), ResponseIDs: a.ResponseIDs, ApprovalIDs: a.ApprovalIDs}
	for _, d := range a.Decisions {
		row.DecisionIDs = append(row.DecisionIDs, d.DecisionID)
	}
	if a.Probe != nil {
		row.ProbeOf = a.Probe.ParentActionID
	}
	at := a.Last.At
	if a.Intent != nil {
		at = a.IntentAt
		row.CapabilityID, row.URL = a.Intent.CapabilityID, a.Intent.URL
	}
	row.At = at.UTC().Format(time.RFC3339)
	return row
}

func newStateListCmd(r *run) *cobra.Command {
	unsettled := false
	c := r.leaf(&cobra.Command{
		Use: "list [--unsettled]", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.listState(cmd.Context(), unsettled) },
	}, page{
		Purpose: "List the actions that the state file knows",
		About: `Lists actions with their time, condition and capability, oldest first. A
condition is a verdict, or unsettled, not_sent, or followed for an action that
was submitted elsewhere.`,
		Never: `It never asks a daemon: what it says is what was learnt here.`,
		Examples: []example{
			{"everything", "aipctl state list"},
			{"what has no end yet, as records", "aipctl state list --unsettled -o jsonl"},
		},
		Exits: []exit{
			{fault.Accepted, "the list was printed, even an empty one"},
			{fault.State, "the file cannot be read"},
		},
		See:     []string{"state show", "action events"},
		Without: []flagGroup{connectionFlags, waitingFlags, answerFlags},
	})
	c.Flags().BoolVar(&unsettled, "unsettled", false, "only actions about which more is to be learnt")
	return c
}

// stateDocument is the one document of state list -o json.
type stateDocument struct {
	record.Head
	Path     string            `json:"path"`               // of the state file
	Actions  []stateRow        `json:"actions"`            // oldest first
	Warnings []verdict.Warning `json:"warnings,omitempty"` // what is amiss with the file
}

func (r *run) listState(ctx context.Context, unsettled bool) error {
	out := r.renderer()
	l, err := r.loadState(ctx, out)
	if err != nil {
		return err
	}
	doc := stateDocument{Head: record.NewHead("state_actions"), Path: l.file.Path(), Actions: []stateRow{}, Warnings: l.warnings}
	for _, a := range l.view.Actions() {
		if !unsettled || !settled(a) {
			doc.Actions = append(doc.Actions, rowOf(a))
		}
	}
	if r.opts.output == "json" {
		return out.Record(doc)
	}
	for _, row := range doc.Actions {
		if err := out.Record(row); err != nil {
			return err
		}
		line := sanitize.Format("%s  %s  %s  %s", sanitize.Line(row.At), sanitize.Line(pad(row.Condition, 11)), sanitize.LineMax(row.ActionID, 130), sanitize.LineMax(row.CapabilityID, 160))
		if err := out.Line(line); err != nil {
			return err
		}
	}
	return nil
}

func pad(s string, width int) string { return fmt.Sprintf("%-*s", width, s) }

func newStateShowCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "show ACTION", ValidArgsFunction: r.completeAction,
		Args: func(cmd *cobra.Command, args []string) error {
			if err := argCount(cmd, args, 1, 1, "the action id"); err != nil {
				return err
			}
			return identity.ParseActionID(args[0])
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.showState(cmd.Context(), args[0]) },
	}, page{
		Purpose: "Show what the state file knows of one action",
		About:   `Shows the intent, the cursors, the ids and the verdict of one action.`,
		Never: `It never shows a prompt or an output, because the file has none. It never asks a
daemon.`,
		Examples: []example{
			{"for a person", "aipctl state show act_0198c0ffee"},
			{"for a script", "aipctl state show act_0198c0ffee -o json"},
		},
		Exits: []exit{
			{fault.Accepted, "the action was shown"},
			{fault.NotFound, "the file does not know the action"},
			{fault.State, "the file cannot be read"},
		},
		See:     []string{"state list", "action status"},
		Without: []flagGroup{connectionFlags, waitingFlags, answerFlags},
	})
}

// actionDetail is the record of state show.
type actionDetail struct {
	stateRow
	Intent    *state.Intent     `json:"intent,omitempty"`    // what was to be submitted
	Submitted bool              `json:"submitted"`           // something came back for the request
	NotSent   *state.NotSent    `json:"not_sent,omitempty"`  // why nothing ran, where that is the last word
	Cursors   []state.Cursor    `json:"cursors,omitempty"`   // how far each stream was read
	Decisions []state.Decision  `json:"decisions,omitempty"` // approval decisions of this client
	Approvals []state.Approval  `json:"approvals,omitempty"` // what is known of the approvals that it waited for
	Receipt   *state.Receipt    `json:"receipt,omitempty"`   // of a deletion, put together from all verdicts
	Probe     *state.Probe      `json:"probe,omitempty"`     // set for an action that was run to learn about another
	Settled   *state.Settled    `json:"settled,omitempty"`   // the verdict
	Warnings  []verdict.Warning `json:"warnings,omitempty"`  // what is amiss with the file
}

func (r *run) showState(ctx context.Context, id string) error {
	out := r.renderer()
	l, err := r.loadState(ctx, out)
	if err != nil {
		return err
	}
	a := l.view.Action(id)
	if a == nil {
		f := fault.New(fault.NotFound, "state.unknown_action", "the state file does not know this action").WithAction(id)
		if len(l.report.Damaged) > 0 {
			return f.WithHint("%s is damaged and may have known it; see `aipctl state check`", l.file.Path())
		}
		return f.WithHint("the file is %s; give another with --state FILE", l.file.Path())
	}
	d := actionDetail{
		stateRow: rowOf(a), Intent: a.Intent, Submitted: a.Submitted, NotSent: a.NotSent, Cursors: a.Cursors,
		Decisions: a.Decisions, Approvals: a.Approvals, Receipt: a.Receipt, Probe: a.Probe, Settled: a.Settled, Warnings: l.warnings,
	}
	if err := out.Record(d); err != nil {
		return err
	}
	return out.Fields(detailFields(a, d)...)
}

func detailFields(a *state.Action, d actionDetail) []render.Field {
	field := func(name, value string) render.Field {
		return render.Field{Name: sanitize.Line(name), Value: sanitize.LineMax(value, 200)}
	}
	fields := []render.Field{field("action", a.ID), field("condition", d.Condition), field("at", d.At), field("capability", d.CapabilityID), field("url", d.URL)}
	if in := a.Intent; in != nil {
		fields = append(fields, field("key", in.IdempotencyKey), field("mode", in.Mode), field("input", in.InputHash),
			field("session", in.SessionID), field("conversation", in.Conversation), field("continues", in.PreviousResponseID), field("response", in.ResponseID))
	}
	if n := a.NotSent; n != nil {
		fields = append(fields, field("not sent", n.Code+": "+n.Reason))
	}
	for _, c := range a.Cursors {
		last := "nothing written"
		if c.LastSequence != nil {
			last = fmt.Sprintf("written up to %d", *c.LastSequence)
		}
		fields = append(fields, field("cursor", strings.TrimSpace(c.Cursor+" "+last)))
	}
	fields = append(fields, field("responses", strings.Join(a.ResponseIDs, " ")), field("approvals", strings.Join(a.ApprovalIDs, " ")))
	for _, x := range a.Decisions {
		fields = append(fields, field("decision", strings.TrimSpace(x.Decision+" of "+x.ApprovalID+", "+x.DecisionID+" "+x.Approver)))
	}
	if p := a.Probe; p != nil {
		fields = append(fields, field("probe of", p.ParentActionID))
	}
	if s := a.Settled; s != nil {
		fields = append(fields, field("verdict", fmt.Sprintf("%s (exit %d) at %s", s.Verdict, s.ExitCode, a.SettledAt.UTC().Format(time.RFC3339))),
			field("error", s.ErrorCode), field("finish", s.FinishReason), field("replay of", s.ReplayOf))
	}
	if rc := a.Receipt; rc != nil {
		word := "not deleted"
		if rc.Deleted {
			word = "deleted"
		}
		fields = append(fields, field("receipt", strings.TrimSpace(rc.ResponseID+" "+word)), field("approved by", strings.TrimSpace(rc.ApprovalID+" "+rc.DecisionID)))
	}
	return fields
}
