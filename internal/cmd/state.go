package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/spf13/cobra"
)

func newStateCmd(r *run) *cobra.Command {
	return group("state", "Look at and tend the local state file",
		"The state file keeps what was submitted, how far each stream was read, and how\neach action ended. None of these commands uses the network.",
		newStatePathCmd(r), newStateListCmd(r), newStateShowCmd(r), newStateCheckCmd(r), newStateMergeCmd(r), newStatePruneCmd(r))
}

// stateFile opens the state file of a command that is about nothing else.
func (r *run) openState() (*state.File, error) {
	f, _, err := r.journal()
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, usageError("state.off", "--state off names no file to look at").WithHint("give a file with --state FILE")
	}
	return f, nil
}

// loadState reads it too, and says on stderr what is damaged.
func (r *run) loadState(ctx context.Context, out *render.Renderer) (*state.File, *state.View, state.Report, error) {
	f, err := r.openState()
	if err != nil {
		return nil, nil, state.Report{}, err
	}
	view, report, err := f.Load(ctx)
	if err != nil {
		return nil, nil, state.Report{}, err
	}
	for _, w := range report.Warnings() {
		out.Note(sanitize.Format("warning: %s", sanitize.Line(w)))
	}
	return f, view, report, nil
}

func newStatePathCmd(r *run) *cobra.Command {
	return &cobra.Command{
		Use: "path", Short: "Print where the state file is",
		Long:    "Prints the path that the other commands use. It never creates the file.\n\nExit codes: 0.",
		Example: "  aipctl state path\n  jq -c . \"$(aipctl state path)\"",
		Args:    noArgs,
		RunE: func(*cobra.Command, []string) error {
			out := r.renderer()
			f, err := r.openState()
			if err != nil {
				return err
			}
			if err := out.Record(struct {
				record.Head
				Path string `json:"path"`
			}{record.NewHead("state_path"), f.Path()}); err != nil {
				return err
			}
			return out.Line(sanitize.Line(f.Path()))
		},
	}
}

// stateRow is one action as state list and state show print it.
type stateRow struct {
	record.Head
	ActionID     string   `json:"action_id"`
	At           string   `json:"at"` // of the intent, else of the first record
	CapabilityID string   `json:"capability_id,omitempty"`
	URL          string   `json:"url,omitempty"`
	Condition    string   `json:"condition"` // a verdict, or unsettled, not_sent, followed
	ResponseIDs  []string `json:"response_ids,omitempty"`
	ApprovalIDs  []string `json:"approval_ids,omitempty"`
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
	c := &cobra.Command{
		Use: "list [--unsettled]", Short: "List the actions that the state file knows",
		Long: `Lists actions with their time, condition and capability, oldest first. A
condition is a verdict, or unsettled, not_sent, or followed for an action that
was submitted elsewhere. It never asks a daemon.

Exit codes: 0, 14 when the file cannot be read.`,
		Example: "  aipctl state list\n  aipctl state list --unsettled -o jsonl",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			out := r.renderer()
			_, view, _, err := r.loadState(cmd.Context(), out)
			if err != nil {
				return err
			}
			for _, a := range view.Actions() {
				if unsettled && settled(a) {
					continue
				}
				row := rowOf(a)
				if err := out.Record(row); err != nil {
					return err
				}
				line := sanitize.Format("%s  %s  %s  %s", sanitize.Line(row.At), sanitize.Line(pad(row.Condition, 11)), sanitize.LineMax(row.ActionID, 130), sanitize.LineMax(row.CapabilityID, 160))
				if err := out.Line(line); err != nil {
					return err
				}
			}
			return nil
		},
	}
	c.Flags().BoolVar(&unsettled, "unsettled", false, "only actions about which more is to be learnt")
	return c
}

func pad(s string, width int) string { return fmt.Sprintf("%-*s", width, s) }

func newStateShowCmd(r *run) *cobra.Command {
	return &cobra.Command{
		Use: "show ACTION", Short: "Show what the state file knows of one action",
		Long: `Shows the intent, the cursors, the ids and the verdict of one action. There is
no prompt and no output in the file, so none is shown.

Exit codes: 0, 13 when the file does not know the action, 14 when it cannot be read.`,
		Example: "  aipctl state show act_0198c0ffee\n  aipctl state show act_0198c0ffee -o json",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := argCount(cmd, args, 1, 1, "the action id"); err != nil {
				return err
			}
			if err := identity.ParseActionID(args[0]); err != nil {
				return err
			}
			out := r.renderer()
			f, view, _, err := r.loadState(cmd.Context(), out)
			if err != nil {
				return err
			}
			a := view.Action(args[0])
			if a == nil {
				return fault.New(fault.NotFound, "state.unknown_action", "the state file does not know this action").WithAction(args[0]).
					WithHint("the file is %s; give another with --state FILE", f.Path())
			}
			return showAction(out, a)
		},
	}
}

// actionDetail is the record of state show.
type actionDetail struct {
	stateRow
	Intent  *state.Intent  `json:"intent,omitempty"`
	NotSent *state.NotSent `json:"not_sent,omitempty"`
	Cursors []state.Cursor `json:"cursors,omitempty"`
	Settled *state.Settled `json:"settled,omitempty"`
}

func showAction(out *render.Renderer, a *state.Action) error {
	d := actionDetail{stateRow: rowOf(a), Intent: a.Intent, NotSent: a.NotSent, Cursors: a.Cursors, Settled: a.Settled}
	if err := out.Record(d); err != nil {
		return err
	}
	field := func(name, value string) render.Field {
		return render.Field{Name: sanitize.Line(name), Value: sanitize.LineMax(value, 200)}
	}
	fields := []render.Field{field("action", a.ID), field("condition", d.Condition), field("at", d.At), field("capability", d.CapabilityID), field("url", d.URL)}
	if in := a.Intent; in != nil {
		fields = append(fields, field("key", in.IdempotencyKey), field("mode", in.Mode), field("input", in.InputHash),
			field("session", in.SessionID), field("conversation", in.Conversation), field("continues", in.PreviousResponseID))
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
	if s := a.Settled; s != nil {
		fields = append(fields, field("verdict", fmt.Sprintf("%s (exit %d) at %s", s.Verdict, s.ExitCode, a.SettledAt.UTC().Format(time.RFC3339))),
			field("error", s.ErrorCode), field("finish", s.FinishReason), field("replay of", s.ReplayOf))
	}
	return out.Fields(fields...)
}

func newStateCheckCmd(r *run) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Check the state file for damage",
		Long: `Reads the whole file and says what is damaged, what could be saved out of it,
and what a newer version wrote. It changes nothing.

Exit codes: 0 when the file is sound or does not exist, 14 otherwise.`,
		Example: "  aipctl state check\n  aipctl state check --state ci-job.jsonl -o json",
		Args:    noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return r.checkState(cmd.Context())
		},
	}
}

type damageRecord struct {
	Line      int    `json:"line"`
	Offset    int64  `json:"offset"`
	Why       string `json:"why"`
	Recovered bool   `json:"recovered"`
}

type checkRecord struct {
	record.Head
	Path    string         `json:"path"`
	Sound   bool           `json:"sound"`
	Lines   int            `json:"lines"`
	Records int            `json:"records"`
	Actions int            `json:"actions"`
	Torn    bool           `json:"torn"`
	Newer   int            `json:"newer"`
	Damaged []damageRecord `json:"damaged"`
}

func (r *run) checkState(ctx context.Context) error {
	out := r.renderer()
	f, err := r.openState()
	if err != nil {
		return err
	}
	view, report, err := f.Load(ctx)
	if err != nil {
		return err
	}
	rec := checkRecord{Head: record.NewHead("state_check"), Path: f.Path(), Sound: report.Sound(), Lines: report.Lines, Records: report.Records,
		Actions: len(view.Actions()), Torn: report.Torn, Newer: report.Newer, Damaged: []damageRecord{}}
	for _, d := range report.Damaged {
		rec.Damaged = append(rec.Damaged, damageRecord{d.Line, d.Offset, d.Why, d.Recovered})
	}
	if err := out.Record(rec); err != nil {
		return err
	}
	word := "sound"
	if !rec.Sound {
		word = "damaged"
	}
	if err := out.Line(sanitize.Format("%s: %s, %s lines, %s records, %s actions", sanitize.Line(rec.Path), sanitize.Line(word), sanitize.Int(int64(rec.Lines)), sanitize.Int(int64(rec.Records)), sanitize.Int(int64(rec.Actions)))); err != nil {
		return err
	}
	for _, w := range report.Warnings() {
		if err := out.Line(sanitize.Line(w)); err != nil {
			return err
		}
	}
	if !rec.Sound {
		return ended(fault.State.Code())
	}
	return nil
}

func newStateMergeCmd(r *run) *cobra.Command {
	return &cobra.Command{
		Use: "merge FILE...", Short: "Take the records of other state files over",
		Long: `Appends every record of the given files that this one does not have, under the
file's lock. The other files are only read. Merging twice adds nothing.

Exit codes: 0, 14 when a file cannot be read or written.`,
		Example: "  aipctl state merge ci-job.jsonl\n  aipctl state merge job1.jsonl job2.jsonl --state all.jsonl",
		Args:    cobra.ArbitraryArgs,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return argCount(cmd, args, 1, 1, "the file to merge")
			}
			return r.mergeState(cmd.Context(), args)
		},
	}
}

func (r *run) mergeState(ctx context.Context, files []string) error {
	out := r.renderer()
	f, err := r.openState()
	if err != nil {
		return err
	}
	for _, name := range files {
		done, err := f.Merge(ctx, name)
		if err != nil {
			return err
		}
		for _, w := range done.Source.Warnings() {
			out.Note(sanitize.Format("warning: %s", sanitize.Line(w)))
		}
		if err := out.Record(struct {
			record.Head
			Source string `json:"source"`
			Added  int    `json:"added"`
		}{record.NewHead("state_merge"), name, done.Added}); err != nil {
			return err
		}
		if err := out.Line(sanitize.Format("%s: %s records added", sanitize.Line(name), sanitize.Int(int64(done.Added)))); err != nil {
			return err
		}
	}
	return nil
}

// pruneOptions are the flags of state prune.
type pruneOptions struct {
	settled   bool
	olderThan time.Duration
}

func newStatePruneCmd(r *run) *cobra.Command {
	o := &pruneOptions{}
	c := &cobra.Command{
		Use: "prune --settled --older-than D", Short: "Drop the records of settled actions",
		Long: `Rewrites the file without the actions that are settled and whose last record is
older than the given time. What is pending, unknown or unsettled always stays.
It asks first; other processes may go on writing meanwhile.

Exit codes: 0, 2 without an answer, 14 when the file cannot be written.`,
		Example: "  aipctl state prune --settled --older-than 720h\n  aipctl state prune --settled --older-than 24h --yes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.pruneState(cmd.Context(), o) },
	}
	c.Flags().BoolVar(&o.settled, "settled", false, "drop settled actions; there is no other kind to drop")
	c.Flags().DurationVar(&o.olderThan, "older-than", 0, "only those whose last record is older")
	return c
}

func (r *run) pruneState(ctx context.Context, o *pruneOptions) error {
	switch {
	case !o.settled:
		return usageError("usage.prune", "prune drops settled actions only").WithHint("say so with --settled")
	case o.olderThan <= 0:
		return usageError("usage.prune", "--older-than is missing").WithHint("give a time such as 720h")
	}
	out := r.renderer()
	f, view, _, err := r.loadState(ctx, out)
	if err != nil {
		return err
	}
	cut := r.Now().Add(-o.olderThan)
	drop := func(a *state.Action) bool { return settled(a) && a.Last.At.Before(cut) }
	n := 0
	for _, a := range view.Actions() {
		if drop(a) {
			n++
		}
	}
	if n > 0 {
		if err := r.confirm(fmt.Sprintf("drop the records of %d settled actions from %s", n, f.Path())); err != nil {
			return err
		}
	}
	var done state.Rewritten
	if n > 0 {
		if done, err = f.Rewrite(ctx, drop); err != nil {
			return err
		}
	}
	if err := out.Record(struct {
		record.Head
		Actions int    `json:"actions"`
		Dropped int    `json:"dropped_records"`
		Kept    int    `json:"kept_lines"`
		Backup  string `json:"backup,omitempty"`
	}{record.NewHead("state_prune"), n, done.Dropped, done.Kept, done.Backup}); err != nil {
		return err
	}
	if done.Backup != "" {
		out.Note(sanitize.Format("the file was damaged; it is kept as %s", sanitize.Line(done.Backup)))
	}
	return out.Line(sanitize.Format("%s actions dropped, %s records", sanitize.Int(int64(n)), sanitize.Int(int64(done.Dropped))))
}

// confirm asks on a terminal; elsewhere only --yes says yes.
func (r *run) confirm(what string) error {
	if r.opts.yes {
		return nil
	}
	refuse := usageError("usage.confirm", "this would %s, and nobody confirmed it", what)
	if !r.StdinTTY || !r.StderrTTY {
		return refuse.WithHint("give --yes where nobody can be asked")
	}
	if _, err := fmt.Fprintf(r.Stderr, "%s? [y/N] ", sanitize.Line(what)); err != nil {
		return refuse
	}
	line, err := bufio.NewReader(io.LimitReader(r.Stdin, 1024)).ReadString('\n')
	if err != nil && line == "" {
		return refuse
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return refuse.WithHint("answer y to go on")
}
