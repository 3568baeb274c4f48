package cmd

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/render"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/verdict"
)

// effectLimit is how long one effect check may run.
const effectLimit = 60 * time.Second

// effectDrain is how long the output of a check is read on after its shell has
// ended, where something that it left behind holds the pipe.
const effectDrain = 2 * time.Second

// hiddenFromEffects are the variables that an effect check does not get: it
// confirms an effect, and needs no token of ours for that.
var hiddenFromEffects = []string{envToken, envTokenFile, envTokenFilePeer}

// effectChecks makes the runner of the given commands; nil for none. Each is
// run by the shell with the outcome record on its stdin, one after the other,
// in a process group of its own that ends with it.
func (r *run) effectChecks(commands []string, out *render.Renderer) func(context.Context, *verdict.Outcome) []verdict.EffectCheck {
	if len(commands) == 0 {
		return nil
	}
	return func(ctx context.Context, sofar *verdict.Outcome) []verdict.EffectCheck {
		results := make([]verdict.EffectCheck, len(commands))
		if sofar == nil {
			return results // another check has failed: none is started
		}
		record, err := render.Marshal(sofar)
		if err != nil {
			return results
		}
		for i, command := range commands {
			code, why := r.runEffect(ctx, command, record, out)
			if ctx.Err() != nil {
				return results
			}
			results[i] = verdict.EffectCheck{Ran: true, ExitCode: code}
			r.remark(out, sanitize.Format("effect check %s of %s: %s", sanitize.Int(int64(i+1)), sanitize.Int(int64(len(commands))), sanitize.Line(why)))
			if code != 0 {
				return results // the verdict is failed whatever the others say
			}
		}
		return results
	}
}

func (r *run) runEffect(ctx context.Context, command string, record []byte, out *render.Renderer) (code int, why string) {
	limit := cmp.Or(r.effectLimit, effectLimit)
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	c := shellCommand(ctx, command)
	c.Stdin = bytes.NewReader(record)
	c.Env = effectEnvironment(os.Environ())
	shown := &effectOutput{show: func(t sanitize.Text) { r.remark(out, t) }}
	c.Stdout, c.Stderr = shown, shown
	c.WaitDelay = effectDrain
	ownGroup(c)
	err := c.Run()
	endGroup(c)
	shown.flush()
	var exit *exec.ExitError
	switch {
	case err == nil, errors.Is(err, exec.ErrWaitDelay) && c.ProcessState.Success():
		return 0, "passed" // also where what it left behind kept the pipe open
	case ctx.Err() != nil:
		return 1, "did not end within " + limit.String()
	case errors.As(err, &exit) && exit.ExitCode() > 0:
		return exit.ExitCode(), "failed"
	case errors.As(err, &exit):
		return 1, "was ended by a signal"
	default:
		return 127, "could not be started"
	}
}

func effectEnvironment(env []string) []string {
	var out []string
	for _, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		hidden := false
		for _, h := range hiddenFromEffects {
			hidden = hidden || strings.EqualFold(name, h)
		}
		if !hidden {
			out = append(out, kv)
		}
	}
	return out
}

// remark says on stderr what stands beside the run. Where stdout carries
// records a program reads stderr too, and finds there what went wrong and
// nothing else, unless it asked for more.
func (r *run) remark(out *render.Renderer, t sanitize.Text) {
	if r.opts.verbose {
		out.Log(t)
		return
	}
	out.Note(t)
}

// effectOutput shows what a check prints, line by line, on our stderr: its
// control sequences are shown, not sent.
type effectOutput struct {
	show func(sanitize.Text)
	line []byte
}

// effectLine is the longest line of a check that is shown in one piece.
const effectLine = 4096

// Write implements io.Writer; exec serialises calls when stdout and stderr
// are the same writer.
func (e *effectOutput) Write(p []byte) (int, error) {
	for _, b := range p {
		if b == '\n' || len(e.line) == effectLine {
			e.flush()
		}
		if b != '\n' {
			e.line = append(e.line, b)
		}
	}
	return len(p), nil
}

func (e *effectOutput) flush() {
	line := bytes.TrimSuffix(e.line, []byte("\r")) // of a line end of Windows
	if len(line) > 0 {
		e.show(sanitize.Format("effect check: %s", sanitize.Line(string(line))))
	}
	e.line = e.line[:0]
}

// requiredTools checks the names of --require-tool.
func requiredTools(names []string) error {
	for _, n := range names {
		if strings.TrimSpace(n) == "" {
			return usageError("usage.require_tool", "--require-tool names no tool").WithHint("a shell variable may be empty; write the tool's name, or leave it out")
		}
	}
	return nil
}

// recordedChecks stands in for the effect checks of an earlier run.
func recordedChecks(k known, id string) []verdict.EffectCheck {
	a := k.action(id)
	if a == nil || a.Intent == nil || a.Intent.EffectChecks == 0 {
		return nil
	}
	checks := make([]verdict.EffectCheck, a.Intent.EffectChecks)
	if a.Settled == nil {
		return checks
	}
	for i := range checks {
		switch verdict.Status(a.Settled.Checks["effect_check"]) {
		case verdict.Pass:
			checks[i] = verdict.EffectCheck{Ran: true}
		case verdict.Fail:
			checks[i] = verdict.EffectCheck{Ran: true, ExitCode: fault.Internal.Code()}
		}
	}
	return checks
}

// recordedTools are the tools that the submit required.
func recordedTools(k known, id string) []string {
	if a := k.action(id); a != nil && a.Intent != nil {
		return a.Intent.RequiredTools
	}
	return nil
}
