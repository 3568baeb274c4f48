package cmd

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

func newStateCheckCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "check", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.checkState(cmd.Context()) },
	}, page{
		Purpose: "Check the state file for damage",
		About: `Reads the whole file and says what is damaged, what could be saved out of it,
and what a newer version wrote.`,
		Never: `It never changes the file.`,
		Examples: []example{
			{"the file of this machine", "aipctl state check"},
			{"one that a CI job has left", "aipctl state check --state ci-job.jsonl -o json"},
		},
		Exits: []exit{
			{fault.Accepted, "every line was understood, or there is no file"},
			{fault.State, "something is damaged, or a newer version wrote it, or it cannot be read"},
		},
		See:     []string{"state merge", "state path"},
		Without: []flagGroup{connectionFlags, waitingFlags, answerFlags},
	})
}

// damageRecord is one damaged place of the state file.
type damageRecord struct {
	Line      int    `json:"line"`      // from 1
	Offset    int64  `json:"offset"`    // in bytes, from 0
	Why       string `json:"why"`       // what is wrong
	Recovered bool   `json:"recovered"` // a record was saved out of it
}

// checkRecord says how the state file is.
type checkRecord struct {
	record.Head
	Path    string         `json:"path"`    // of the state file
	Sound   bool           `json:"sound"`   // every line was understood, or there is no file
	Empty   bool           `json:"empty"`   // the file is there and has no byte
	Lines   int            `json:"lines"`   // of the file
	Records int            `json:"records"` // that were understood
	Actions int            `json:"actions"` // that the records are about
	Torn    bool           `json:"torn"`    // the last line has no end
	Newer   int            `json:"newer"`   // records of a newer version
	Damaged []damageRecord `json:"damaged"` // damaged places, in the order of the file
}

func (r *run) checkState(ctx context.Context) error {
	out := r.renderer()
	f, err := r.openState(out)
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
	return r.leaf(&cobra.Command{
		Use: "merge FILE...", ValidArgsFunction: completeFiles,
		Args: func(cmd *cobra.Command, args []string) error {
			return argCount(cmd, args, 1, math.MaxInt, "the file to merge")
		},
		RunE: func(cmd *cobra.Command, args []string) error { return r.mergeState(cmd.Context(), args) },
	}, page{
		Purpose: "Take the records of other state files over",
		About: `Appends every record of the given files that this one does not have, under the
file's lock. Merging twice adds nothing. A damaged line stays behind; the file
that has it should be kept.`,
		Never: `It never writes to the files that it is given, and never takes a record out of
any.`,
		Examples: []example{
			{"what a CI job has submitted", "aipctl state merge ci-job.jsonl"},
			{"several into one of their own", "aipctl state merge job1.jsonl job2.jsonl --state all.jsonl"},
		},
		Exits: []exit{
			{fault.Accepted, "everything that could be read was taken over"},
			{fault.State, "a file cannot be read or written"},
		},
		See:     []string{"state check", "state list"},
		Without: []flagGroup{connectionFlags, waitingFlags, answerFlags},
	})
}

// mergeRecord says what came of one file.
type mergeRecord struct {
	record.Head
	Source  string `json:"source"`  // the file that was read
	Added   int    `json:"added"`   // records that were new
	Damaged int    `json:"damaged"` // lines that stayed behind
}

// mergeDocument is the one document of state merge -o json.
type mergeDocument struct {
	record.Head
	Path     string            `json:"path"`               // of the state file
	Sources  []mergeRecord     `json:"sources"`            // each file that was read
	Warnings []verdict.Warning `json:"warnings,omitempty"` // what is amiss with them
}

func (r *run) mergeState(ctx context.Context, files []string) error {
	out := r.renderer()
	f, err := r.openState(out)
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
	c := r.leaf(&cobra.Command{
		Use: "prune --settled --older-than TIME", Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return r.pruneState(cmd.Context(), o) },
	}, page{
		Purpose: "Drop the records of settled actions",
		About: `Rewrites the file without the actions that are settled and whose last record is
older than the given time. It asks first; other processes may go on writing
meanwhile.

An action that was dropped is forgotten: this file no longer keeps its id from
being submitted again.`,
		Never: `It never drops what is pending, unknown or unsettled.`,
		Examples: []example{
			{"what ended more than 30 days ago", "aipctl state prune --settled --older-than 720h"},
			{"where nobody can be asked", "aipctl state prune --settled --older-than 24h --yes"},
		},
		Exits: []exit{
			{fault.Accepted, "dropped, or there was nothing to drop"},
			{fault.Usage, "nobody said yes, or the command line is wrong; nothing was dropped"},
			{fault.State, "the file cannot be read or written"},
		},
		See:     []string{"state list", "state check"},
		Without: []flagGroup{connectionFlags, waitingFlags, answerFlags},
	})
	c.Flags().BoolVar(&o.settled, "settled", false, "drop settled actions; there is no other kind to drop")
	c.Flags().DurationVar(&o.olderThan, "older-than", 0, "only those whose last record is older than this `TIME`, such as 720h")
	return c
}

// pruneRecord says what a prune left.
type pruneRecord struct {
	record.Head
	Actions  int               `json:"actions"`            // dropped
	Dropped  int               `json:"dropped_records"`    // records of those actions
	Kept     int               `json:"kept_lines"`         // lines that are left
	Backup   string            `json:"backup,omitempty"`   // the damaged file as it was
	Warnings []verdict.Warning `json:"warnings,omitempty"` // what is amiss with the file
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
