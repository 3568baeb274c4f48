package cmd

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
)

// Bounds in runes of what a daemon may fill a screen with.
const (
	sheetValue = 400
	sheetName  = 200
)

// showContract prints one capability as a screen to read: what it is, its
// terms, and its input.
func showContract(out *render.Renderer, l *contract.Listing, c aip.Capability) error {
	if err := out.Line(sanitize.Line(c.ID)); err != nil {
		return err
	}
	if title := cmp.Or(c.Description, c.Name); title != "" {
		if err := out.Sheet(render.Field{Name: sanitize.Static(""), Value: sanitize.LineMax(title, sheetValue)}); err != nil {
			return err
		}
	}
	if err := out.Line(sanitize.Static("")); err != nil {
		return err
	}
	var fields []render.Field
	for _, f := range sheet(l, c) {
		fields = append(fields, render.Field{Name: sanitize.Line(f[0]), Value: sanitize.LineMax(f[1], sheetValue)})
	}
	if err := out.Sheet(fields...); err != nil {
		return err
	}
	return showInput(out, c)
}

// sheet is the terms of a capability: pairs of a name and what is said of it.
// What the daemon does not say is said to be so where somebody acts on it.
func sheet(l *contract.Listing, c aip.Capability) [][2]string {
	from := string(l.Source)
	if l.Revision != "" {
		from += ", revision " + l.Revision
	}
	k := c.Contract
	if k == nil {
		k = &aip.CapabilityContract{}
	}
	const unsaid = "not said"
	return [][2]string{
		{"from", from},
		{"kind", joined(", ", c.Kind, c.Stability)},
		{"risk", cmp.Or(c.Risk, unsaid)},
		{"modes", cmp.Or(modesOf(k.Execution), unsaid)},
		{"approval", cmp.Or(approvalOf(c), unsaid)},
		{"key", cmp.Or(keyOf(k.Idempotency), unsaid)},
		{"retry", cmp.Or(retryOf(k.Execution), unsaid)},
		{"timeout", timesOf(k)},
		{"effects", cmp.Or(strings.Join(k.SideEffects, ", "), unsaid)},
		{"undo", undoOf(k.Compensation)},
		{"data", cmp.Or(dataOf(c, k), unsaid)},
		{"credential", joined(" from ", c.AuthScheme, c.AuthSource)},
		{"provider", joined(" ", c.Binding.Method, c.Binding.Path)},
	}
}

// joined is the parts that are there.
func joined(sep string, parts ...string) string {
	var out []string
	for _, p := range parts {
		if p != "" {
			out = append(out, p)
		}
	}
	return strings.Join(out, sep)
}

func modesOf(e *aip.Execution) string {
	if e == nil {
		return ""
	}
	var has []string
	for _, m := range []struct {
		yes  bool
		name string
	}{{e.Sync, aip.ModeSync}, {e.Async, aip.ModeAsync}, {e.Streaming, aip.ModeStreaming}} {
		if m.yes {
			has = append(has, m.name)
		}
	}
	cancel := "cannot be cancelled"
	if e.Cancel {
		cancel = "can be cancelled"
	}
	made := ""
	if len(has) > 1 && e.Expected != "" {
		made = "made for " + e.Expected
	}
	return joined("; ", cmp.Or(strings.Join(has, ", "), "none"), made, cancel)
}

func approvalOf(c aip.Capability) string {
	human := c.HumanApproval != nil && *c.HumanApproval
	var a *aip.ApprovalDemand
	if c.Contract != nil {
		a = c.Contract.Approval
	}
	switch {
	case a != nil && a.Required || human:
	case a != nil || c.HumanApproval != nil || c.Contract != nil:
		return "not required"
	default:
		return ""
	}
	if a == nil {
		return "required"
	}
	by, open, who, many := "", "", "", ""
	if a.Selector != "" {
		by = " by " + plain(a.Selector)
	}
	if a.TTL > 0 {
		open = "open for " + span(a.TTL)
	}
	if a.Approvers > 1 {
		many = fmt.Sprintf("by %d different approvers", a.Approvers)
	}
	if a.RequesterDiffer {
		who = "not by the requester"
	}
	evidence := ""
	if len(a.Evidence) > 0 {
		evidence = "evidence: " + plain(strings.Join(a.Evidence, ", "))
	}
	return joined("; ", "required"+by, open, many, who, evidence)
}

func keyOf(i *aip.Idempotency) string {
	if i == nil {
		return ""
	}
	if i.Requirement == "unsupported" {
		return "not supported"
	}
	again := map[string]string{
		"return_original_result": "used again it gives the first result, whatever the input",
		"reject_conflict":        "used again it is refused",
		"revalidate_input_hash":  "used again with another input it is refused",
	}[i.Collision]
	kept := ""
	if i.TTL > 0 {
		kept = "kept for " + span(i.TTL)
	}
	scope := ""
	if i.Scope != "" {
		scope = "counts within one " + plain(i.Scope)
	}
	made := ""
	if i.Requirement == "required" {
		made = "made by aipctl when none is given"
	}
	return joined("; ", i.Requirement, made, kept, scope, again)
}

func retryOf(e *aip.Execution) string {
	if e == nil {
		return ""
	}
	daemon := "the daemon does not retry it"
	if e.Retry {
		daemon = "the daemon may retry it"
	}
	return joined("; ", cmp.Or(plain(e.RetrySafety), "unknown"), daemon)
}

func timesOf(k *aip.CapabilityContract) string {
	part := func(format string, d time.Duration) string {
		if d <= 0 {
			return ""
		}
		return fmt.Sprintf(format, span(d))
	}
	return joined("; ", part("ends after %s", k.Timeout), part("expected to take %s", k.Latency), part("queued for at most %s", k.QueueDelay))
}

func undoOf(compensation string) string {
	switch compensation {
	case "":
		return ""
	case "rollback_not_supported":
		return "not possible"
	case "not_required":
		return "not needed"
	}
	return plain(compensation)
}

func dataOf(c aip.Capability, k *aip.CapabilityContract) string {
	said := ""
	if k.Sensitivity != "" || k.ContainsPII != nil {
		pii, redact := "personal data is not said", ""
		if k.ContainsPII != nil {
			pii = map[bool]string{true: "personal data", false: "no personal data"}[*k.ContainsPII]
		}
		if k.Redaction != nil && *k.Redaction {
			redact = "to be redacted"
		}
		said = joined(", ", k.Sensitivity, pii, redact)
	}
	t := treatmentOf(c)
	if t == nil {
		return said
	}
	return fmt.Sprintf("treat as %s with personal data: %s (it says: %s)", t.Sensitivity, t.Why, cmp.Or(said, "nothing"))
}

// plain is a word of the protocol as a person would write it.
func plain(word string) string { return strings.ReplaceAll(word, "_", " ") }

// span is a time without the parts that are zero.
func span(d time.Duration) string {
	switch {
	case d%(24*time.Hour) == 0 && d > 24*time.Hour:
		return fmt.Sprintf("%d days", d/(24*time.Hour))
	case d%time.Hour == 0:
		return fmt.Sprintf("%dh", d/time.Hour)
	case d%time.Minute == 0:
		return fmt.Sprintf("%dm", d/time.Minute)
	}
	return d.String()
}

// showInput prints the input as a table.
func showInput(out *render.Renderer, c aip.Capability) error {
	fields, notes, more := contract.Fields(c.InputSchema)
	if err := out.Line(sanitize.Static("")); err != nil {
		return err
	}
	rows := [][]sanitize.Text{{sanitize.Static("INPUT"), sanitize.Static("TYPE"), sanitize.Static("NEEDED"), sanitize.Static("MEANING")}}
	for _, f := range fields {
		needed := "-"
		if f.Required {
			needed = "yes"
		}
		rows = append(rows, []sanitize.Text{sanitize.LineMax(f.Path, sheetName), sanitize.LineMax(f.Type, 40), sanitize.Line(needed), sanitize.LineMax(f.Meaning, sheetValue)})
	}
	if len(fields) > 0 {
		if err := out.Table(rows...); err != nil {
			return err
		}
	} else if err := out.Line(sanitize.Static("The input has no members that the schema names.")); err != nil {
		return err
	}
	if more {
		notes = append(notes, "more than is shown here; see -o json")
	}
	if len(c.InputSchema) == 0 {
		notes = append(notes, "the daemon publishes no schema of the input")
	} else if _, err := contract.Compile(c.InputSchema); err != nil {
		notes = append(notes, "the schema cannot be used to check an input: "+err.Error())
	}
	for _, note := range notes {
		if err := out.Sheet(render.Field{Name: sanitize.Static("note"), Value: sanitize.LineMax(note, sheetValue)}); err != nil {
			return err
		}
	}
	return nil
}
