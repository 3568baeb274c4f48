package cmd

import (
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/aipctl/aipctl/internal/devserver"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/spf13/cobra"
)

// demoOptions are the flags of demo.
type demoOptions struct {
	scenario string
	list     bool
	speed    float64
}

func newDemoCmd(r *run) *cobra.Command {
	o := &demoOptions{}
	c := r.leaf(&cobra.Command{
		Use:  "demo [--scenario NAME] [--list]",
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if o.list {
				return r.listScenarios()
			}
			return r.runDemo(cmd.Context(), cmd, o)
		},
	}, page{
		Purpose: "Run a recorded action through the real client, on a daemon of its own",
		About: "Starts the embedded development daemon on loopback, submits an action to it by " +
			"the same path as `aipctl action call`, shows it and settles it. The state file is " +
			"a temporary one.",
		Never: `It never reaches a daemon of yours, and keeps nothing.`,
		Examples: []example{
			{"see one run", "aipctl demo"},
			{"what else there is", "aipctl demo --list"},
			{"an answer that was cut, as records; exit 7", "aipctl demo --scenario chat-length -o jsonl"},
		},
		Exits:   verdictExits(exit{fault.Accepted, "the scenario was accepted, or --list printed them"}),
		See:     []string{"dev serve", "action call", "help exit-codes"},
		Without: []flagGroup{connectionFlags},
	})
	f := c.Flags()
	f.StringVar(&o.scenario, "scenario", "demo", "which recording to run, by its `NAME`")
	f.BoolVar(&o.list, "list", false, "list the scenarios")
	f.Float64Var(&o.speed, "speed", 1, "how many times faster than recorded; 0 leaves no pauses")
	return c
}

// scenarioRecord is one scenario of the development daemon.
type scenarioRecord struct {
	record.Head
	Name       string `json:"name"`          // for --scenario
	Capability string `json:"capability_id"` // what to call to play it
	Operation  string `json:"operation"`     // the last part of the capability id
	Summary    string `json:"summary"`       // what it shows
}

func (r *run) listScenarios() error {
	out := r.renderer()
	var rows []render.Field
	for _, s := range devserver.Scenarios() {
		rec := scenarioRecord{Head: record.NewHead("scenario"), Name: s.Name, Capability: s.CapabilityID(), Operation: s.Operation, Summary: s.Summary}
		if err := out.Record(rec); err != nil {
			return err
		}
		rows = append(rows, render.Field{Name: sanitize.Line(s.Name), Value: sanitize.Line(s.Summary)})
	}
	return out.Fields(rows...)
}

func (r *run) runDemo(ctx context.Context, cmd *cobra.Command, o *demoOptions) error {
	if o.speed < 0 {
		return usageError("usage.speed", "--speed cannot be negative").WithHint("write --speed 4 for four times as fast, or --speed 0 for no pauses")
	}
	scenario, err := findScenario(o.scenario)
	if err != nil {
		return err
	}
	server, err := startDaemon(ctx, daemonOptions{listen: "127.0.0.1:0", speed: o.speed, keepAlive: 15 * time.Second})
	if err != nil {
		return err
	}
	defer server.close()
	dir, err := os.MkdirTemp("", "aipctl-demo-")
	if err != nil {
		return fault.New(fault.State, "demo.state", "no folder for a temporary state file can be made").Wrap(err).WithHint("set TMPDIR to a folder that can be written")
	}
	defer func() { _ = os.RemoveAll(dir) }()
	if err := r.pointAt(server, filepath.Join(dir, "state.jsonl")); err != nil {
		return err
	}
	call := &callOptions{
		urlArg: server.url, capability: scenario.CapabilityID(), input: scenario.Demo, inputGiven: true, mode: scenario.Mode, onInterrupt: interruptDetach,
	}
	if call.mode == "" {
		call.mode = modeAuto
	}
	return r.runCall(ctx, cmd, call)
}

// pointAt aims this run at the embedded daemon, whatever else was configured.
func (r *run) pointAt(server *embedded, stateFile string) error {
	for _, name := range []string{"url", "context", "token-file", "native-bearer-token-file", "ca-file", "native-tls-ca-file", "state"} {
		if r.opts.changed(name) {
			return usageError("usage.demo", "demo brings its own daemon, token and state file; --%s does not go with it", name).
				WithHint("leave it out, or run `aipctl action call` against your own daemon")
		}
	}
	r.opts.url, r.opts.tokenFile, r.opts.stateFile = server.url, server.tokenFile, stateFile
	r.demo = true
	return nil
}

func findScenario(name string) (devserver.Scenario, error) {
	var names []string
	for _, s := range devserver.Scenarios() {
		if s.Name == name {
			return s, nil
		}
		names = append(names, s.Name)
	}
	f := usageError("usage.scenario", "there is no scenario %q", name)
	if near := nearest(name, names); near != "" {
		return devserver.Scenario{}, f.WithHint("did you mean %s? `aipctl demo --list` names them all", near)
	}
	return devserver.Scenario{}, f.WithHint("`aipctl demo --list` names them all")
}
