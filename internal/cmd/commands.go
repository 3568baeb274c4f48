package cmd

import (
	"github.com/aipctl/aipctl/internal/fault"
)

// nextCommands spells the commands to go on with. They repeat what this run
// works with and not the context that it came from, so that they work in another
// shell, in another folder, and after the context was changed.
type nextCommands struct {
	name  string
	url   string
	flags []string
}

func (r *run) commands(d *daemon, stateFlag string) nextCommands {
	c := nextCommands{name: r.Executable, url: d.url}
	add := func(name, value string) {
		if value != "" {
			c.flags = append(c.flags, name, value)
		}
	}
	add("--token-file", absolute(d.tokenFile))
	add("--ca-file", absolute(d.caFile))
	add("--state", stateFlag)
	if r.opts.allowPlaintext {
		c.flags = append(c.flags, "--allow-plaintext")
	}
	return c
}

// exact gives an error about an action the command to go on with in full: with
// the url, token and state flags of this run it works from any shell.
func (r *run) exact(err error, d *daemon, k known) error {
	f := fault.As(err)
	if f == nil || f.ActionID == "" || len(f.Next) > 0 || r.demo {
		return err
	}
	c := r.commands(d, k.flag)
	if a := k.action(f.ActionID); a != nil && a.Intent != nil && a.Intent.URL != "" {
		c.url = a.Intent.URL // where it was submitted, whatever daemon was named now
	}
	switch f.Code {
	case "action.id_in_use", "state.duplicate_intent", "state.newer_version":
		return f.WithHint("read it, or choose another action id").WithNext(c.Follow(f.ActionID)...)
	case "state.duplicate_delete", "state.key_reused":
		return f.WithHint("read how it ended").WithNext(c.Result(f.ActionID)...)
	case "cancel.unanswered":
		return f.WithHint("look at it; cancelling again is safe").WithNext(c.Status(f.ActionID)...)
	}
	return err
}

func (c nextCommands) argv(verb, id string, more ...string) []string {
	argv := append([]string{c.name, "action", verb, c.url, id}, more...)
	return append(argv, c.flags...)
}

// Follow comes back to the stream and settles.
func (c nextCommands) Follow(id string) []string {
	return c.argv("events", id, "--follow", "--include-chunks")
}

// Result reads and judges the stored result.
func (c nextCommands) Result(id string) []string { return c.argv("result", id) }

// Status reads the durable view.
func (c nextCommands) Status(id string) []string { return c.argv("status", id) }

// Cancel asks for the end of the action.
func (c nextCommands) Cancel(id string) []string { return c.argv("cancel", id) }
