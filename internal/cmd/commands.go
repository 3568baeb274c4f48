package cmd

import "github.com/aipctl/aipctl/internal/engine"

// nextCommands spells the commands to go on with. They repeat what this run
// was given, so that they work from another shell.
type nextCommands struct {
	name  string
	url   string
	flags []string
}

func (r *run) commands(d *daemon, stateFlag string) engine.Commands {
	c := nextCommands{name: r.Executable, url: d.url}
	add := func(name, value string) {
		if value != "" {
			c.flags = append(c.flags, name, value)
		}
	}
	add("--token-file", d.tokenFile)
	add("--ca-file", d.caFile)
	add("--state", stateFlag)
	if r.opts.allowPlaintext {
		c.flags = append(c.flags, "--allow-plaintext")
	}
	return c
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
