package cmd

import (
	"os"
	"time"

	"github.com/mattn/go-isatty"
	"golang.org/x/term"
)

// systemApp is the world as the process finds it.
func systemApp(v Version) App {
	tty := func(f *os.File) bool { return isatty.IsTerminal(f.Fd()) || isatty.IsCygwinTerminal(f.Fd()) }
	return App{
		Version: v,
		Stdin:   os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr,
		StdinTTY: tty(os.Stdin), StdoutTTY: tty(os.Stdout), StderrTTY: tty(os.Stderr),
		Width: func() int {
			w, _, err := term.GetSize(int(os.Stderr.Fd()))
			if err != nil {
				return 0
			}
			return w
		},
		Env: systemEnv(actsOnEscapes(os.Stderr)), Now: time.Now, Executable: "aipctl",
	}
}

// systemEnv reads the environment. A terminal that cannot act on escapes is the
// one that TERM calls dumb, and an old console has no TERM to say so.
func systemEnv(escapes bool) func(string) string {
	if escapes {
		return os.Getenv
	}
	return func(name string) string {
		if v := os.Getenv(name); v != "" || name != "TERM" {
			return v
		}
		return "dumb"
	}
}
