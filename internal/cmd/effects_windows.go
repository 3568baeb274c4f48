package cmd

import (
	"context"
	"os"
	"os/exec"
	"syscall"
)

func shellCommand(ctx context.Context, command string) *exec.Cmd {
	shell := os.Getenv("COMSPEC")
	if shell == "" {
		shell = "cmd.exe"
	}
	return exec.CommandContext(ctx, shell, "/C", command)
}

// ownGroup keeps a Ctrl-C that ends us from reaching the command first; what
// it started itself is not followed here.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr = &syscall.SysProcAttr{CreationFlags: syscall.CREATE_NEW_PROCESS_GROUP}
}

// endGroup does nothing: a group of processes cannot be ended as one here.
func endGroup(*exec.Cmd) {}
