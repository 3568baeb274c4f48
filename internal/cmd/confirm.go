package cmd

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/aipctl/aipctl/internal/sanitize"
)

// confirm asks on a terminal; elsewhere only --yes says yes. Anything but a yes
// is a fault of class usage, and nothing was done. A signal ends the question:
// its fault is the cause of ctx.
func (r *run) confirm(ctx context.Context, what string) error {
	if r.opts.yes {
		return nil
	}
	refused := usageError("usage.confirm", "this would %s, and nobody confirmed it", what)
	if !r.StdinTTY || !r.StderrTTY {
		return refused.WithHint("give --yes where nobody can be asked")
	}
	if _, err := fmt.Fprintf(r.Stderr, "%s? [y/N] ", sanitize.LineMax(what, sheetValue)); err != nil {
		return refused.WithHint("give --yes where nobody can be asked")
	}
	// A read of a terminal cannot be ended; the process ends with it.
	answer := make(chan string, 1)
	go func() {
		line, _ := bufio.NewReader(io.LimitReader(r.Stdin, 1024)).ReadString('\n') // an answer without an end is none
		answer <- line
	}()
	var line string
	select {
	case line = <-answer:
	case <-ctx.Done():
	}
	if !strings.HasSuffix(line, "\n") {
		line = ""
		fmt.Fprintln(r.Stderr) // what follows does not stand behind the question
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return nil
	}
	return refused.WithHint("answer y to go on")
}
