package cmd

import (
	"os"
	"syscall"

	"github.com/aipctl/aipctl/internal/fault"
)

// Windows reports a closed console window and a logoff as SIGTERM.
var signalClasses = map[os.Signal]fault.Class{
	os.Interrupt:    fault.Interrupt,
	syscall.SIGTERM: fault.Terminate,
}

// ignorePipe has nothing to do: writes to a closed pipe are errors here.
func ignorePipe() {}
