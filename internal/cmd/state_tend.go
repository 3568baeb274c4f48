package cmd

import (
	"context"
	"fmt"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

func newStateCheckCmd(r *run) *cobra.Command {
	return &cobra.Command{
		Use: "check", Short: "Check the state file for damage",
		Long: `Reads the whole file and says what is damaged, what could be saved out of it,
and what a newer version wrote. It changes nothing.

Exit codes: 0 when every line was understood or there is no file, 14 otherwise.`,
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
	Empty   bool           `json:"empty"` // the file is there and has no byte
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
	rec := checkRecord{Head: record.NewHead("state_check"), Path: f.Path(), Sound: report.Sound(), Empty: report.Empty, Lines: report.Lines,
		Records: report.Records, Actions: len(view.Actions()), Torn: report.Torn, Newer: report.Newer, Damaged: []damageRecord{}}
	for _, d := range report.Damaged {
		rec.Damaged = append(rec.Damaged, damageRecord{d.Line, d.Offset, d.Why, d.Recovered})
	}
	if err := out.Record(rec); err != nil {
		return err
	}
	word := "sound"
	switch {
	case len(report.Damaged) > 0:
		word = "damaged"
	case report.Newer > 0:
		word = "newer than this aipctl" // which is no damage
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
file's lock. The other files are only read. Merging twice adds nothing. A
damaged line stays behind; the file that has it should be kept.

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

// mergeRecord says what came of one file.
type mergeRecord struct {
	record.Head
	Source  string `json:"source"`
	Added   int    `json:"added"`
	Damaged int    `json:"damaged"` // lines that stayed behind
}

// mergeDocument is the one document of state merge -o json.
type mergeDocument struct {
	record.Head
	Path     string            `json:"path"`
	Sources  []mergeRecord     `json:"sources"`
	Warnings []verdict.Warning `json:"warnings,omitempty"`
}

func (r *run) mergeState(ctx context.Context, files []string) error {
	out := r.renderer()
	f, err := r.openState()
	if err != nil {
		return err
	}
	doc := mergeDocument{Head: record.NewHead("state_merged"), Path: f.Path(), Sources: []mergeRecord{}}
	for _, name := range files {
		done, err := f.Merge(ctx, name)
		if err != nil {
			return err
		}
		warned, err := r.warnState(out, done.Source)
		if err != nil {
			return err
		}
		rec := mergeRecord{record.NewHead("state_merge"), name, done.Added, len(done.Source.Damaged)}
		doc.Sources, doc.Warnings = append(doc.Sources, rec), append(doc.Warnings, warned...)
		if r.opts.output == "json" {
			continue
		}
		if err := out.Record(rec); err != nil {
			return err
		}
		if err := out.Line(sanitize.Format("%s: %s added", sanitize.Line(name), sanitize.Line(counted(done.Added, "record")))); err != nil {
			return err
		}
	}
	if r.opts.output == "json" {
		return out.Record(doc)
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

An action that was dropped is forgotten: this file no longer keeps its id from
being submitted again.

Exit codes: 0, 2 without a yes, 14 when the file cannot be read or written.`,
		Example: "  aipctl state prune --settled --older-than 720h\n  aipctl state prune --settled --older-than 24h --yes",
		Args:    noArgs,
		RunE:    func(cmd *cobra.Command, _ []string) error { return r.pruneState(cmd.Context(), o) },
	}
	c.Flags().BoolVar(&o.settled, "settled", false, "drop settled actions; there is no other kind to drop")
	c.Flags().DurationVar(&o.olderThan, "older-than", 0, "only those whose last record is older than this `TIME`, such as 720h")
	return c
}

// pruneRecord says what a prune left.
type pruneRecord struct {
	record.Head
	Actions  int               `json:"actions"` // dropped
	Dropped  int               `json:"dropped_records"`
	Kept     int               `json:"kept_lines"`
	Backup   string            `json:"backup,omitempty"` // the damaged file as it was
	Warnings []verdict.Warning `json:"warnings,omitempty"`
}

func (r *run) pruneState(ctx context.Context, o *pruneOptions) error {
	switch {
	case !o.settled:
		return usageError("usage.prune", "prune drops settled actions only").WithHint("say so with --settled")
	case o.olderThan <= 0:
		return usageError("usage.prune", "--older-than is missing").WithHint("give a time such as 720h")
	}
	out := r.renderer()
	l, err := r.loadState(ctx, out)
	if err != nil {
		return err
	}
	cut := r.Now().Add(-o.olderThan)
	old := func(a *state.Action) bool { return settled(a) && a.Last.At.Before(cut) }
	n := 0
	for _, a := range l.view.Actions() {
		if old(a) {
			n++
		}
	}
	rec := pruneRecord{Head: record.NewHead("state_prune"), Kept: l.report.Lines, Warnings: l.warnings}
	if n > 0 {
		if err := r.confirm(ctx, pruneQuestion(n, len(l.report.Damaged), l.file.Path())); err != nil {
			return err
		}
		// While the question stood, others may have written: what is dropped is
		// decided, and counted, under the lock.
		done, err := l.file.Rewrite(ctx, func(a *state.Action) bool {
			if !old(a) {
				return false
			}
			rec.Actions++
			return true
		})
		if err != nil {
			return err
		}
		rec.Dropped, rec.Kept, rec.Backup = done.Dropped, done.Kept, done.Backup
	}
	if err := out.Record(rec); err != nil {
		return err
	}
	if rec.Backup != "" {
		out.Note(sanitize.Format("the file was damaged; it is kept as %s", sanitize.Line(rec.Backup)))
	}
	return out.Line(sanitize.Format("%s dropped, %s", sanitize.Line(counted(rec.Actions, "action")), sanitize.Line(counted(rec.Dropped, "record"))))
}

// pruneQuestion says all that a yes would change.
func pruneQuestion(actions, damaged int, path string) string {
	what := counted(actions, "settled action")
	if damaged > 0 {
		what += " and " + counted(damaged, "damaged line")
	}
	what = fmt.Sprintf("drop %s from %s", what, path)
	if damaged > 0 {
		what += " (a copy with the damage is kept beside it)"
	}
	return what
}

func counted(n int, what string) string {
	if n == 1 {
		return "1 " + what
	}
	return fmt.Sprintf("%d %ss", n, what)
}
