package cmd

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/spf13/cobra"
)

func newCapabilityCmd(r *run) *cobra.Command {
	return group("capability", "See what a daemon offers, and on what terms",
		"What may be called, from the daemon's catalogue, or from its manifest where there is\nno catalogue. These commands only read.",
		newCapabilityListCmd(r), newCapabilityDescribeCmd(r))
}

func discoveryExits(accepted string, more ...exit) []exit {
	return append([]exit{
		{fault.Accepted, accepted},
		{fault.Unavailable, "neither catalogue nor manifest could be read"},
		{fault.Auth, "the token, or a token without a tenant, is what stands between"},
	}, more...)
}

func newCapabilityListCmd(r *run) *cobra.Command {
	var raw, endpoint string
	c := r.leaf(&cobra.Command{
		Use: "list [URL]",
		Args: func(cmd *cobra.Command, args []string) error {
			var rest []string
			raw, rest = takeURL(args)
			return argCount(cmd, rest, 0, 0, "")
		},
		RunE: func(cmd *cobra.Command, _ []string) error { return r.listCapabilities(cmd.Context(), raw, endpoint) },
	}, page{
		Purpose: "List the capabilities that a daemon offers",
		About: `Reads all pages of the daemon's catalogue, else its manifest, and says which it
was. The manifest holds no capability of a remote connector.

With -o json the list is one document, with -o jsonl a record for each
capability; both hold every contract whole, as the daemon wrote it.`,
		Never: `It never submits an action, and never fills in what the daemon does not say.`,
		Examples: []example{
			{"what there is", "aipctl capability list"},
			{"the ids of one endpoint, for a script", "aipctl capability list --endpoint lab -o jsonl --jq .capability.id"},
		},
		Exits:   discoveryExits("the list was printed; it may be empty"),
		See:     []string{"capability describe", "action call", "doctor"},
		Without: []flagGroup{waitingFlags, answerFlags},
	})
	c.Flags().StringVar(&endpoint, "endpoint", "", "only the capabilities of this `ENDPOINT`")
	return c
}

func newCapabilityDescribeCmd(r *run) *cobra.Command {
	var raw, name, endpoint string
	c := r.leaf(&cobra.Command{
		Use: "describe [URL] CAPABILITY", ValidArgsFunction: r.completeCapability,
		Args: func(cmd *cobra.Command, args []string) error {
			var rest []string
			raw, rest = takeURL(args)
			if err := argCount(cmd, rest, 1, 1, "the capability"); err != nil {
				return err
			}
			name = rest[0]
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			endpoint, err := r.endpointOf(raw, name, endpoint, cmd.Flags().Changed("endpoint"))
			if err != nil {
				return err
			}
			return r.describeCapability(cmd.Context(), raw, name, endpoint)
		},
	}, page{
		Purpose: "Show what one capability takes, does and demands",
		About: `Shows the contract of a capability on one screen: how it may run, what risk it
is, whether somebody has to approve it, whether it needs a key, what may be
retried, how long it may take, what it touches and what data it handles; and
its input as a table.

It looks in the catalogue, then in the manifest. With -o json the contract is
whole, as the daemon wrote it.`,
		Never: `It never submits an action. It takes no contract's word for it that a stored
response is harmless: response_get is shown as confidential, with personal data.`,
		Examples: []example{
			{"by its id", "aipctl capability describe cap:hermes_agent:lab:response_delete"},
			{"by operation and endpoint", "aipctl capability describe chat_stream --endpoint lab"},
			{"the schema of its input", "aipctl capability describe chat_stream --endpoint lab \\\n  -o json --jq .capability.input_schema"},
		},
		Exits:   discoveryExits("the contract was printed", exit{fault.NotFound, "the daemon has no such capability, or does not show it"}),
		See:     []string{"capability list", "action call", "doctor"},
		Without: []flagGroup{waitingFlags, answerFlags},
	})
	c.Flags().StringVar(&endpoint, "endpoint", "", "the `ENDPOINT` of a bare operation such as chat_stream; else that of the context")
	return c
}

// capabilityRecord is one capability as the daemon wrote it.
type capabilityRecord struct {
	record.Head
	Source          contract.Source           `json:"source"`                     // who said it
	CatalogRevision jsontext.Value            `json:"catalog_revision,omitempty"` // a number, with all its digits
	Capability      jsontext.Value            `json:"capability"`                 // whole, as the daemon wrote it
	Catalog         map[string]jsontext.Value `json:"catalog,omitempty"`          // what stands beside it in the catalogue, such as its digests
	Treat           *treatment                `json:"treat,omitempty"`            // how its data is to be handled, where the contract says less than it should
}

// capabilityDetail is the record of capability describe.
type capabilityDetail struct {
	capabilityRecord
	Warnings []verdict.Warning `json:"warnings,omitempty"` // why it is not the catalogue that said it
}

// treatment is how data is to be handled where the contract says less.
type treatment struct {
	Sensitivity string `json:"sensitivity"`  // a word of the protocol, such as confidential
	ContainsPII bool   `json:"contains_pii"` // personal data may be in it
	Why         string `json:"why"`          // a clause for a person
}

func newCapabilityRecord(l *contract.Listing, c aip.Capability) capabilityRecord {
	return capabilityRecord{
		Head: record.NewHead("capability"), Source: l.Source, CatalogRevision: revisionOf(l),
		Capability: c.Raw, Catalog: c.Entry, Treat: treatmentOf(c),
	}
}

// revisionOf is the revision of the catalogue with all its digits.
func revisionOf(l *contract.Listing) jsontext.Value {
	if l.Revision == "" {
		return nil
	}
	return jsontext.Value(l.Revision)
}

// treatmentOf speaks up for the one operation whose published contract is too
// weak: a stored response holds whatever a model or a tool wrote.
func treatmentOf(c aip.Capability) *treatment {
	if operationOf(c) != "response_get" {
		return nil
	}
	return &treatment{"confidential", true, "a stored response may hold whatever a model or a tool wrote, whatever the contract says"}
}

// operationOf is the operation that a capability stands for; empty where
// neither its binding nor its id says.
func operationOf(c aip.Capability) string {
	if c.Binding.Operation != "" {
		return c.Binding.Operation
	}
	id, err := identity.ParseCapability(c.ID)
	if err != nil {
		return ""
	}
	return id.Operation
}

// capabilityDocument is the one document of capability list -o json.
type capabilityDocument struct {
	record.Head
	Source          contract.Source    `json:"source"`                     // who said it
	CatalogRevision jsontext.Value     `json:"catalog_revision,omitempty"` // a number, with all its digits
	Capabilities    []capabilityRecord `json:"capabilities"`               // in the order of their ids
	Warnings        []verdict.Warning  `json:"warnings,omitempty"`         // why it is not the catalogue that said it
}

func (r *run) listCapabilities(ctx context.Context, raw, endpoint string) error {
	out := r.renderer()
	d, err := r.connect(raw, out)
	if err != nil {
		return err
	}
	defer d.client.Close()
	l, err := contract.List(ctx, d.client)
	if err != nil {
		return endedBy(ctx, err)
	}
	warned, err := r.sayMissed(out, l)
	if err != nil {
		return err
	}
	slices.SortFunc(l.Capabilities, func(a, b aip.Capability) int { return strings.Compare(a.ID, b.ID) })
	doc := capabilityDocument{Head: record.NewHead("capabilities"), Source: l.Source, CatalogRevision: revisionOf(l), Capabilities: []capabilityRecord{}, Warnings: warned}
	rows := [][]sanitize.Text{{sanitize.Static("CAPABILITY"), sanitize.Static("RISK"), sanitize.Static("APPROVAL"), sanitize.Static("KEY"), sanitize.Static("MODE")}}
	for _, c := range l.Capabilities {
		if endpoint != "" && !strings.EqualFold(publishedEndpoint(c), strings.TrimSpace(endpoint)) {
			continue
		}
		doc.Capabilities = append(doc.Capabilities, newCapabilityRecord(l, c))
		rows = append(rows, listRow(c))
	}
	if r.opts.output == "json" {
		return out.Record(doc)
	}
	for _, rec := range doc.Capabilities {
		if err := out.Record(rec); err != nil {
			return err
		}
	}
	if len(rows) == 1 {
		out.Note(sanitize.Format("there is no capability in the %s", sanitize.Line(string(l.Source))))
		return nil
	}
	return out.Table(rows...)
}

// publishedEndpoint is the endpoint that a capability stands for.
func publishedEndpoint(c aip.Capability) string {
	if c.Binding.EndpointID != "" {
		return c.Binding.EndpointID
	}
	id, err := identity.ParseCapability(c.ID)
	if err != nil {
		return ""
	}
	return id.Endpoint
}

// listRow is a line of the list. The mode is the one that --mode auto takes.
func listRow(c aip.Capability) []sanitize.Text {
	k := contract.Builtin(operationOf(c)).With(c, contract.Catalogue)
	word := func(yes, said bool, word string) sanitize.Text {
		switch {
		case yes:
			return sanitize.Line(word)
		case said:
			return sanitize.Static("-")
		}
		return sanitize.Static("?")
	}
	said := c.Contract != nil
	return []sanitize.Text{
		sanitize.Line(c.ID),
		sanitize.LineMax(cmp.Or(c.Risk, "?"), 12),
		word(k.Approval, said || c.HumanApproval != nil, "required"),
		word(k.KeyRequired && said && c.Contract.Idempotency != nil, said && c.Contract.Idempotency != nil, "required"),
		word(k.Modes() != nil, false, k.Mode),
	}
}

// sayMissed says why the catalogue was not what answered.
func (r *run) sayMissed(out *render.Renderer, l *contract.Listing) ([]verdict.Warning, error) {
	if l.Missed == nil {
		return nil, nil
	}
	w := verdict.Warning{Code: l.Missed.Code, Message: "this is the manifest, which holds no capability of a remote connector: " + l.Missed.Message}
	out.Note(sanitize.Format("warning: %s", sanitize.LineMax(w.Message, 400)))
	if r.opts.output == "jsonl" {
		return nil, out.Record(record.Warning{Head: record.NewHead(record.TypeWarning), Code: w.Code, Message: w.Message})
	}
	return []verdict.Warning{w}, nil
}

func (r *run) describeCapability(ctx context.Context, raw, name, endpoint string) error {
	out := r.renderer()
	d, err := r.connect(raw, out)
	if err != nil {
		return err
	}
	defer d.client.Close()
	wanted, err := identity.QualifyCapability(name, endpoint)
	if err != nil {
		return err
	}
	l, err := contract.Find(ctx, d.client, wanted.ID)
	if err != nil {
		return endedBy(ctx, r.nearestCapability(ctx, d, wanted.ID, err))
	}
	warned, err := r.sayMissed(out, l)
	if err != nil {
		return err
	}
	c := l.Capabilities[0]
	if r.opts.output != "text" {
		return out.Record(capabilityDetail{newCapabilityRecord(l, c), warned})
	}
	return showContract(out, l, c)
}

// endedBy is the signal where one ended a reading, and nothing is known of the
// daemon; else err.
func endedBy(ctx context.Context, err error) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// nearestCapability names what may have been meant, when a daemon does not know
// a capability.
func (r *run) nearestCapability(ctx context.Context, d *daemon, id string, err error) error {
	f := fault.As(err)
	if f == nil || f.Class != fault.NotFound {
		return err
	}
	var known []string
	if l, lerr := contract.List(ctx, d.client); lerr == nil {
		for _, c := range l.Capabilities {
			known = append(known, c.ID)
		}
	}
	if near := nearest(id, known); near != "" {
		return f.WithHint("did you mean %s?", near)
	}
	return f.WithHint("`aipctl capability list` shows what there is")
}
