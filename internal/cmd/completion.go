package cmd

import (
	"io"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/spf13/cobra"
)

// shell is one shell that completion is written for.
type shell struct {
	name     string
	title    string
	about    string
	examples []example
	write    func(root *cobra.Command, w io.Writer) error
}

// shells are all of them. The names of files are where each looks by itself.
var shells = []shell{
	{
		"bash", "Bash", "Needs the package bash-completion, version 2, which most systems have installed.",
		[]example{
			{"for this shell only", "source <(aipctl completion bash)"},
			{"for every new shell", "mkdir -p ~/.local/share/bash-completion/completions\naipctl completion bash \\\n  >~/.local/share/bash-completion/completions/aipctl"},
		},
		func(root *cobra.Command, w io.Writer) error { return root.GenBashCompletionV2(w, true) },
	},
	{
		"zsh", "Zsh", "Completion has to be on: ~/.zshrc has the lines `autoload -U compinit` and `compinit`. A folder of your own goes into fpath before them, with `fpath=(~/.zfunc $fpath)`.",
		[]example{
			{"for this shell only", "source <(aipctl completion zsh)"},
			{"for every new shell", "mkdir -p ~/.zfunc\naipctl completion zsh >~/.zfunc/_aipctl"},
		},
		func(root *cobra.Command, w io.Writer) error { return root.GenZshCompletion(w) },
	},
	{
		"fish", "Fish", "Fish loads the file by itself when it is needed.",
		[]example{
			{"for this shell only", "aipctl completion fish | source"},
			{"for every new shell", "aipctl completion fish >~/.config/fish/completions/aipctl.fish"},
		},
		func(root *cobra.Command, w io.Writer) error { return root.GenFishCompletion(w, true) },
	},
	{
		"powershell", "PowerShell", "Works in Windows PowerShell 5.1 and in PowerShell 7. What is in the file of `$PROFILE` runs in every new shell.",
		[]example{
			{"for this shell only", "aipctl completion powershell | Out-String | Invoke-Expression"},
			{"for every new shell", "aipctl completion powershell >>$PROFILE"},
		},
		func(root *cobra.Command, w io.Writer) error { return root.GenPowerShellCompletionWithDesc(w) },
	},
}

func newCompletionCmd(r *run) *cobra.Command {
	var children []*cobra.Command
	for _, s := range shells {
		children = append(children, newShellCmd(r, s))
	}
	return group("completion", "Complete commands, ids and files in your shell",
		`Prints a script that lets a shell complete commands, flags and their values,
ids of actions and stored responses that this machine has seen, contexts and
scenarios. The help of each shell says where the script goes.

Completing reads the state file and the contexts. It never asks the network,
writes nothing, and is silent where a file cannot be read.`, children...)
}

func newShellCmd(r *run, s shell) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use: s.name, Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return s.write(cmd.Root(), cmd.OutOrStdout()) },
	}, page{
		Purpose:  "Print the completion script for " + s.title,
		About:    "Prints the script that teaches " + s.title + " to complete `aipctl`.\n\n" + s.about,
		Never:    "It never changes a file of the shell: where the script goes is up to you. The script calls `aipctl`, which never asks the network for it.",
		Examples: s.examples,
		Exits:    []exit{{fault.Accepted, "the script was printed"}},
		See:      []string{"help state", "context list"},
		Without:  []flagGroup{connectionFlags, waitingFlags, outputFlags, safetyFlags, answerFlags},
	})
}
