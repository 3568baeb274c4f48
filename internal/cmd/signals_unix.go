//go:build !windows

package cmd

import (
	"os"
	"os/signal"
	"syscall"

	"github.com/aipctl/aipctl/internal/fault"
)

var signalClasses = map[os.Signal]fault.Class{
	syscall.SIGINT:  fault.Interrupt,
	syscall.SIGTERM: fault.Terminate,
	syscall.SIGHUP:  fault.HangUp,
}

// ignorePipe makes a write to a closed pipe an error: the runtime would end
// the process before the cursor is saved.
func ignorePipe() { signal.Ignore(syscall.SIGPIPE) }
