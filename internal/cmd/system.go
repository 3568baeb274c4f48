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
		Env: os.Getenv, Now: time.Now, Executable: "aipctl",
	}
}
