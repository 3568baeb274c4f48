package cmd

import (
	"context"
	"os"
	"os/exec"
	"strconv"
	"syscall"
)

// shellCommand hands the command to the shell as it is. The quotes that other
// programs want around an argument, with a backslash before those within it,
// are not what cmd reads: with /S it takes one pair away and leaves the rest.
func shellCommand(ctx context.Context, command string) *exec.Cmd {
	shell := os.Getenv("COMSPEC")
	if shell == "" {
		shell = "cmd.exe"
	}
	c := exec.CommandContext(ctx, shell)
	c.SysProcAttr = &syscall.SysProcAttr{CmdLine: syscall.EscapeArg(shell) + ` /D /S /C "` + command + `"`}
	return c
}

// ownGroup keeps a Ctrl-C that ends us from reaching the command first, and
// ends with the command what it has started.
func ownGroup(c *exec.Cmd) {
	c.SysProcAttr.CreationFlags = syscall.CREATE_NEW_PROCESS_GROUP
	c.Cancel = func() error {
		tree := exec.Command("taskkill", "/T", "/F", "/PID", strconv.Itoa(c.Process.Pid))
		if tree.Run() == nil {
			return nil
		}
		return c.Process.Kill()
	}
}

// endGroup does nothing: of a command that has ended nobody knows any more what
// it has started.
func endGroup(*exec.Cmd) {}
