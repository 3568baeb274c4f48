package cmd

import (
	"os"

	"github.com/mattn/go-isatty"
	"golang.org/x/sys/windows"
)

// actsOnEscapes reports whether a terminal acts on the escapes of colours. A
// console has to be asked to; before Windows 10 it could not. It is asked for
// each stream, since the other one may lead to a file. The pipes that are the
// terminals of Cygwin and MSYS act on them by themselves.
func actsOnEscapes(f *os.File) bool {
	if !isatty.IsTerminal(f.Fd()) {
		return true
	}
	console := windows.Handle(f.Fd())
	var mode uint32
	if windows.GetConsoleMode(console, &mode) != nil {
		return false
	}
	const wanted = windows.ENABLE_PROCESSED_OUTPUT | windows.ENABLE_VIRTUAL_TERMINAL_PROCESSING
	return mode&wanted == wanted || windows.SetConsoleMode(console, mode|wanted) == nil
}
