package cmd

import (
	"context"
	"errors"
	"os"
	"strings"
	"unicode"

	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/config"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/identity"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

func newContextCmd(r *run) *cobra.Command {
	return group("context", "Keep daemons under names",
		`A context is a daemon with a name: its URL, the file with your token for it, an
endpoint, a CA file, and who you are there. What neither a flag nor the
environment names comes from the context that --context or AIPCTL_CONTEXT names,
else from the current one.

None of these commands uses the network.`,
		newContextSetCmd(r), newContextUseCmd(r), newContextListCmd(r), newContextShowCmd(r), newContextDeleteCmd(r))
}

// withoutNetwork are the groups of flags that no command about contexts needs.
var withoutNetwork = []flagGroup{connectionFlags, waitingFlags, safetyFlags, answerFlags}

var contextStateExit = exit{fault.State, "the file of the contexts cannot be written"}

// contextSetOptions are the flags of context set that are not global.
type contextSetOptions struct {
	endpoint, principal, tenant string
}

func newContextSetCmd(r *run) *cobra.Command {
	o := &contextSetOptions{}
	c := r.leaf(&cobra.Command{
		Use: "set NAME [--url URL] [--token-file FILE] [--endpoint ENDPOINT] [--ca-file FILE] [--principal TEXT] [--tenant TEXT]",
		// An empty file name removes the field here, and is refused elsewhere.
		PersistentPreRunE: func(*cobra.Command, []string) error { return r.opts.checkValues() },
		Args:              contextName,
		ValidArgsFunction: r.completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			fields, err := r.contextFields(cmd, o)
			if err != nil {
				return err
			}
			return r.setContext(cmd.Context(), args[0], fields)
		},
	}, page{
		Purpose: "Make a context, or change fields of one",
		About: `Sets the fields that are given, and leaves the others as they are. An empty
value removes a field. --url, --token-file and --ca-file, which hold for one run
elsewhere, are kept here; a relative path is made absolute. The first context
becomes the current one.

The token file, the CA file, principal and tenant of a context are used for its
own daemon and for no other, whatever names the daemon.`,
		Never: `It never reads a token into the file: it keeps the path of the token file. It
never sends principal and tenant with an action: they are recorded in the state
file with what is submitted. Only a decision about an approval names the principal.`,
		Examples: []example{
			{"a daemon with its token", "aipctl context set lab --url https://aipd.example.net --token-file ~/aip-token"},
			{"an endpoint for `action call chat_stream`", "aipctl context set lab --endpoint north"},
			{"without an endpoint again", "aipctl context set lab --endpoint ''"},
		},
		Exits:   []exit{{fault.Accepted, "the context is kept"}, contextStateExit},
		See:     []string{"context use", "context show", "context delete"},
		Without: []flagGroup{waitingFlags, safetyFlags, answerFlags},
	})
	f := c.Flags()
	f.StringVar(&o.endpoint, "endpoint", "", "the `ENDPOINT` of operations that name none")
	f.StringVar(&o.principal, "principal", "", "who you are there, as a `TEXT` for your own records; as KIND:ID it names who decides approvals")
	f.StringVar(&o.tenant, "tenant", "", "whose you are there, as a `TEXT` for your own records; never sent")
	return c
}

// contextRenderer is the renderer of a command about contexts: with -v it has
// said where their file is.
func (r *run) contextRenderer() *render.Renderer {
	out := r.renderer()
	r.saySetting(out, "contexts", r.configPath())
	return out
}

// contextName checks that the one argument is there and can be a name.
func contextName(cmd *cobra.Command, args []string) error {
	if err := argCount(cmd, args, 1, 1, "the name of the context"); err != nil {
		return err
	}
	return config.CheckName(args[0])
}

// contextFields are the fields that the command line names, checked and in the
// form in which they are kept.
func (r *run) contextFields(cmd *cobra.Command, o *contextSetOptions) (map[string]string, error) {
	if err := r.opts.checkTwins(); err != nil {
		return nil, err
	}
	fields := map[string]string{}
	for _, f := range []struct {
		flag, field, value string
		keep               func(string) (string, error)
	}{
		{"url", "url", r.opts.url, keptURL},
		{"token-file", "token_file", r.opts.tokenFile, keptPath},
		{"native-bearer-token-file", "token_file", r.opts.tokenFilePeer, keptPath},
		{"endpoint", "endpoint", o.endpoint, keptEndpoint},
		{"ca-file", "ca_file", r.opts.caFile, keptPath},
		{"native-tls-ca-file", "ca_file", r.opts.caFilePeer, keptPath},
		{"principal", "principal", o.principal, keptText},
		{"tenant", "tenant", o.tenant, keptText},
	} {
		if !cmd.Flags().Changed(f.flag) {
			continue
		}
		var err error
		if f.value != "" {
			f.value, err = f.keep(f.value)
		}
		if err != nil {
			return nil, err
		}
		fields[f.field] = f.value
	}
	if len(fields) == 0 {
		return nil, usageError("context.nothing", "nothing is to be set").
			WithHint("give at least one of --url, --token-file, --endpoint, --ca-file, --principal, --tenant")
	}
	return fields, nil
}

func keptURL(s string) (string, error) {
	u, err := client.ParseBase(s)
	if err != nil {
		return "", fault.As(err).WithHint("give it as http://host:port or https://host")
	}
	return u.String(), nil
}

func keptPath(s string) (string, error) { return absolute(s), nil }

func keptEndpoint(s string) (string, error) {
	c, err := identity.QualifyCapability("chat", s)
	return c.Endpoint, err
}

func keptText(s string) (string, error) {
	if strings.ContainsFunc(s, unicode.IsControl) {
		return "", usageError("context.value", "a control character is in the text").WithHint("principal and tenant are plain words")
	}
	return strings.TrimSpace(s), nil
}

// contextRecord is a context: a daemon by its name.
type contextRecord struct {
	record.Head
	Name      string            `json:"name"`                 // what --context takes
	Current   bool              `json:"current"`              // it is used where nothing names another
	URL       string            `json:"url,omitempty"`        // of the daemon, a path prefix included
	TokenFile string            `json:"token_file,omitempty"` // absolute path
	Endpoint  string            `json:"endpoint,omitempty"`   // of operations that name none
	CAFile    string            `json:"ca_file,omitempty"`    // absolute path
	Principal string            `json:"principal,omitempty"`  // recorded with what is submitted, and sent with decisions about approvals only
	Tenant    string            `json:"tenant,omitempty"`     // the same
	Warnings  []verdict.Warning `json:"warnings,omitempty"`   // what a call would stumble over, and what the file has that is not used
}

// deletedContextRecord is a context that was removed.
type deletedContextRecord struct {
	contextRecord
	Restore []string `json:"restore"` // argv that makes it again
}

func newContextRecord(c config.Context, all *config.Contexts) contextRecord {
	return contextRecord{
		Head: record.NewHead("context"), Name: c.Name, Current: c.Name == all.Current, URL: config.ShownURL(c.URL), TokenFile: c.TokenFile,
		Endpoint: c.Endpoint, CAFile: c.CAFile, Principal: c.Principal, Tenant: c.Tenant,
	}
}

func (r *run) setContext(ctx context.Context, name string, fields map[string]string) error {
	out := r.contextRenderer()
	all, err := r.contexts().Set(ctx, name, fields)
	if err != nil {
		return unknownContext(err)
	}
	c, err := all.Get(name)
	if err != nil {
		return unknownContext(err)
	}
	rec := newContextRecord(c, all)
	if err := r.recordContext(out, &rec, append(warnings("config", all.Warnings), contextWarnings(c, fields)...)); err != nil {
		return err
	}
	if err := out.Line(sanitize.Format("context %s is set", sanitize.Line(name))); err != nil {
		return err
	}
	if rec.Current {
		out.Note(sanitize.Format("%s is the current context", sanitize.Line(name)))
	} else {
		out.Note(sanitize.Format("use it with --context %s, or with `aipctl context use %s`", sanitize.Line(name), sanitize.Line(name)))
	}
	r.noteBeaten(out, rec)
	return nil
}

// contextWarnings are what a later call would stumble over. The context is kept
// all the same: a file may come later.
func contextWarnings(c config.Context, set map[string]string) []verdict.Warning {
	var out []verdict.Warning
	if set["token_file"] != "" {
		if _, err := (identity.TokenSource{File: c.TokenFile}).Load(); err != nil {
			out = append(out, verdict.Warning{Code: fault.As(err).Code, Message: fault.As(err).Message})
		}
	}
	if set["ca_file"] != "" {
		if _, err := os.Stat(c.CAFile); err != nil {
			out = append(out, verdict.Warning{Code: "ca_file.unreadable", Message: "the CA file " + c.CAFile + " cannot be read: " + fileReason(err)})
		}
	}
	return out
}

// recordContext shows the record of one context, and before it what is amiss.
func (r *run) recordContext(out *render.Renderer, rec *contextRecord, amiss []verdict.Warning) error {
	rec.Warnings = amiss
	r.noteWarnings(out, amiss)
	return out.Record(*rec)
}

func (r *run) noteWarnings(out *render.Renderer, all []verdict.Warning) {
	for _, w := range all {
		out.Note(sanitize.Format("warning: %s", sanitize.Line(w.Message)))
	}
}

// noteBeaten says what in the environment keeps calls from going where the
// current context says.
func (r *run) noteBeaten(out *render.Renderer, c contextRecord) {
	if name := r.Env(envContext); name != "" && name != c.Name {
		out.Note(sanitize.Format("%s names context %s, and beats the current one", sanitize.Line(envContext), sanitize.Line(name)))
	}
	if url := r.Env(envURL); url != "" && url != c.URL {
		out.Note(sanitize.Format("%s is set, and beats the URL of any context: calls go to %s", sanitize.Line(envURL), sanitize.Line(config.ShownURL(url))))
	}
}

func newContextUseCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "use NAME", Args: contextName, ValidArgsFunction: r.completeContext,
		RunE: func(cmd *cobra.Command, args []string) error {
			out := r.contextRenderer()
			all, err := r.contexts().Use(cmd.Context(), args[0])
			if err != nil {
				return unknownContext(err)
			}
			c, err := all.Get(args[0])
			if err != nil {
				return unknownContext(err)
			}
			rec := newContextRecord(c, all)
			if err := r.recordContext(out, &rec, warnings("config", all.Warnings)); err != nil {
				return err
			}
			if err := out.Line(sanitize.Format("context %s is the current one", sanitize.Line(c.Name))); err != nil {
				return err
			}
			r.noteBeaten(out, rec)
			return nil
		},
	}, page{
		Purpose: "Make a context the current one",
		About: `The current context is used where neither --context nor AIPCTL_CONTEXT names
another. It concerns every shell of yours; for one shell, set AIPCTL_CONTEXT.`,
		Never: `It never changes what an action that was submitted belongs to: the commands to
come back to it name its daemon.`,
		Examples: []example{
			{"for all shells", "aipctl context use lab"},
			{"for one call", "aipctl --context lab action status act_0198c0ffee"},
		},
		Exits:   []exit{{fault.Accepted, "the context is the current one"}, contextStateExit},
		See:     []string{"context list", "context set"},
		Without: withoutNetwork,
	})
}

// makeContext is the way on where there are no contexts.
const makeContext = "make one with `aipctl context set NAME --url URL --token-file FILE`"

// contextsDocument is the one document of context list -o json.
type contextsDocument struct {
	record.Head
	Path     string            `json:"path"`               // of the file
	Current  string            `json:"current,omitempty"`  // name of the one that is used where nothing names another
	Contexts []contextRecord   `json:"contexts"`           // by name
	Warnings []verdict.Warning `json:"warnings,omitempty"` // what the file has that is not used
}

func newContextListCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "list", Args: noArgs,
		RunE: func(*cobra.Command, []string) error { return r.listContexts() },
	}, page{
		Purpose: "List the contexts",
		About:   `Lists the contexts by name, with their URLs. A star marks the current one.`,
		Never:   `It never looks into a token file, and never asks a daemon.`,
		Examples: []example{
			{"all of them", "aipctl context list"},
			{"their names, for a script", "aipctl context list -o jsonl --jq .name"},
		},
		Exits:   []exit{{fault.Accepted, "they were listed, or there are none"}},
		See:     []string{"context show", "context use"},
		Without: withoutNetwork,
	})
}

func (r *run) listContexts() error {
	out := r.contextRenderer()
	all, err := r.contexts().Load()
	if err != nil {
		return err
	}
	doc := contextsDocument{Head: record.NewHead("contexts"), Path: all.Path, Current: all.Current, Contexts: []contextRecord{}, Warnings: warnings("config", all.Warnings)}
	if all.Current != "" {
		if _, err := all.Get(all.Current); err != nil {
			doc.Warnings = append(doc.Warnings, verdict.Warning{Code: "context.unknown", Message: "the current context " + all.Current + " is not there; choose one with `aipctl context use NAME`"})
		}
	}
	r.noteWarnings(out, doc.Warnings)
	width := 0
	for _, name := range all.Names() {
		width = max(width, len(name))
		c, err := all.Get(name)
		if err != nil {
			return err
		}
		doc.Contexts = append(doc.Contexts, newContextRecord(c, all))
	}
	if r.opts.output == render.JSON.String() {
		return out.Record(doc)
	}
	for _, c := range doc.Contexts {
		if err := out.Record(c); err != nil {
			return err
		}
		mark := " "
		if c.Current {
			mark = "*"
		}
		if err := out.Line(sanitize.Format("%s %s  %s", sanitize.Line(mark), sanitize.Line(pad(c.Name, width)), sanitize.LineMax(c.URL, 200))); err != nil {
			return err
		}
	}
	if len(doc.Contexts) == 0 {
		out.Note(sanitize.Static("there are no contexts; " + makeContext))
	} else if named := r.Env(envContext); named != "" && named != all.Current {
		out.Note(sanitize.Format("%s names context %s, and beats the current one", sanitize.Line(envContext), sanitize.Line(named)))
	}
	return nil
}

func newContextShowCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "show [NAME]", ValidArgsFunction: r.completeContext,
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return contextName(cmd, args)
		},
		RunE: func(_ *cobra.Command, args []string) error {
			name := config.First(flagValue("context", r.opts.context), r.variable(envContext))
			if len(args) > 0 {
				name = config.Value{Text: args[0]}
			}
			return r.showContext(name)
		},
	}, page{
		Purpose: "Show a context",
		About: `Shows the fields of a context: the named one, else the one that a call would
use. The flag -v of any other command says where each of its settings came from.`,
		Never: `It never shows a token, for none is in the file.`,
		Examples: []example{
			{"the one that is in use", "aipctl context show"},
			{"one field, for a script", "aipctl context show lab -o json --jq .url"},
		},
		Exits:   []exit{{fault.Accepted, "the context was shown"}, {fault.NotFound, "none is named, and there is no current one"}},
		See:     []string{"context list", "context set"},
		Without: withoutNetwork,
	})
}

func (r *run) showContext(name config.Value) error {
	out := r.contextRenderer()
	all, err := r.contexts().Load()
	if err != nil {
		return err
	}
	if name.Text == "" {
		name = config.Value{Text: all.Current, From: "the current one of " + all.Path}
	}
	if name.Text == "" && len(all.Names()) == 0 {
		return fault.New(fault.NotFound, "context.none", "there are no contexts").WithHint("%s", makeContext)
	}
	if name.Text == "" {
		return fault.New(fault.NotFound, "context.none", "no context is the current one").
			WithHint("name one, or choose one with `aipctl context use NAME`; `aipctl context list` shows all")
	}
	c, err := all.Get(name.Text)
	var unknown *config.UnknownError
	if errors.As(err, &unknown) {
		unknown.From = name.From
	}
	if err != nil {
		return unknownContext(err)
	}
	rec := newContextRecord(c, all)
	if err := r.recordContext(out, &rec, warnings("config", all.Warnings)); err != nil {
		return err
	}
	fields := []render.Field{{Name: sanitize.Static("name"), Value: sanitize.Line(c.Name)}}
	for _, f := range config.Fields() {
		fields = append(fields, render.Field{Name: sanitize.Line(strings.ReplaceAll(f, "_", " ")), Value: sanitize.LineMax(shownField(c, f), 300)})
	}
	return out.Fields(fields...)
}

func newContextDeleteCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: "delete NAME", Args: contextName, ValidArgsFunction: r.completeContext,
		RunE: func(cmd *cobra.Command, args []string) error { return r.deleteContext(cmd.Context(), args[0]) },
	}, page{
		Purpose: "Remove a context",
		About: `Removes the context from the file, and prints the command that makes it again.
Where it was the current one, no other takes its place: a call that names no
daemon is refused then, and does not go to another one.`,
		Never: `It never removes the token file or the CA file, and never touches the state
file.`,
		Examples: []example{
			{"one that is not needed any more", "aipctl context delete lab"},
			{"and choose another", "aipctl context delete lab && aipctl context use prod"},
		},
		Exits:   []exit{{fault.Accepted, "the context is removed"}, contextStateExit},
		See:     []string{"context list", "context set"},
		Without: withoutNetwork,
	})
}

func (r *run) deleteContext(ctx context.Context, name string) error {
	out := r.contextRenderer()
	was, all, err := r.contexts().Delete(ctx, name)
	if err != nil {
		return unknownContext(err)
	}
	rec := deletedContextRecord{newContextRecord(was, all), r.restoreContext(was)}
	rec.Head = record.NewHead("context_deleted")
	rec.Warnings = warnings("config", all.Warnings)
	r.noteWarnings(out, rec.Warnings)
	if err := out.Record(rec); err != nil {
		return err
	}
	if err := out.Line(sanitize.Format("context %s is deleted", sanitize.Line(name))); err != nil {
		return err
	}
	out.Note(sanitize.Format("to have it back: %s", render.Command(rec.Restore)))
	if all.Current == "" {
		out.Note(sanitize.Static("no context is the current one; choose one with `aipctl context use NAME`"))
	}
	return nil
}

// restoreContext spells the command that makes a context again.
func (r *run) restoreContext(c config.Context) []string {
	argv := []string{r.Executable, "context", "set", c.Name}
	for _, f := range config.Fields() {
		if v := shownField(c, f); v != "" {
			argv = append(argv, "--"+strings.ReplaceAll(f, "_", "-"), v)
		}
	}
	return argv
}

// completeContext offers the names of the contexts for the one argument.
func (r *run) completeContext(_ *cobra.Command, args []string, _ string) ([]cobra.Completion, cobra.ShellCompDirective) {
	all, err := r.contexts().Load()
	if err != nil || len(args) > 0 {
		return nil, cobra.ShellCompDirectiveNoFileComp // nobody reads an error in the middle of a word
	}
	var out []cobra.Completion
	for _, name := range all.Names() {
		c, _ := all.Get(name)
		out = append(out, cobra.CompletionWithDesc(name, sanitize.LineMax(config.ShownURL(c.URL), 120).String()))
	}
	return out, cobra.ShellCompDirectiveNoFileComp
}

// shownField is a field of a context as it may be shown.
func shownField(c config.Context, name string) string {
	if name == "url" {
		return config.ShownURL(c.URL)
	}
	return c.Field(name)
}
