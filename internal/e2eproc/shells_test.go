//go:build unix

package e2eproc

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// shells are what completion is tried in: how a script is only read, and how a
// line is completed. The line is "aipctl action events ", and what it can become
// is printed one a line.
var shells = []struct {
	name  string
	check []string
	ask   string
}{
	{"bash", []string{"-n"}, `
		if ! declare -F _get_comp_words_by_ref >/dev/null; then # of the package bash-completion
			_get_comp_words_by_ref() { cur=''; prev=events; words=(aipctl action events ''); cword=3; }
		fi
		source <(aipctl completion bash)
		COMP_WORDS=(aipctl action events '') COMP_CWORD=3 COMP_LINE='aipctl action events ' COMP_POINT=21 COMP_TYPE=9 COMP_KEY=9
		__start_aipctl
		printf '%s\n' "${COMPREPLY[@]}"`},
	{"zsh", []string{"-f", "-n"}, `
		compdef() { : }
		_describe() { print -l -- $completions }
		compstate=()
		source <(aipctl completion zsh)
		words=(aipctl action events '') CURRENT=4
		_aipctl`},
	{"fish", []string{"--no-execute"}, `
		aipctl completion fish | source
		complete -C 'aipctl action events '`},
	{"pwsh", nil, `
		aipctl completion powershell | Out-String | Invoke-Expression
		(TabExpansion2 'aipctl action events ' 21).CompletionMatches | ForEach-Object CompletionText`},
}

// TestShellsComplete lets each shell that is here read its script and complete
// an action id with it.
func TestShellsComplete(t *testing.T) {
	for _, shell := range shells {
		t.Run(shell.name, func(t *testing.T) {
			path, err := exec.LookPath(shell.name)
			if err != nil {
				t.Skipf("no %s here", shell.name)
			}
			h := &home{t: t, dir: t.TempDir()}
			h.env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + h.dir, "XDG_STATE_HOME=" + h.dir, "AIP_URL=http://127.0.0.1:1", "TERM=dumb"}
			if err := os.MkdirAll(filepath.Dir(h.stateFile()), 0o700); err != nil {
				t.Fatal(err)
			}
			line := `{"v":1,"id":"1","type":"intent","at":"2030-01-15T11:00:00Z","action_id":"act_0001","intent":{"capability_id":"cap:hermes_agent:lab:chat"}}` + "\n"
			if err := os.WriteFile(h.stateFile(), []byte(line), 0o600); err != nil {
				t.Fatal(err)
			}
			run := func(args ...string) string {
				t.Helper()
				c := exec.Command(path, args...)
				c.Env = h.env
				out, err := c.CombinedOutput()
				if err != nil {
					t.Fatalf("%s %q: %v\n%s", shell.name, args, err, out)
				}
				return string(out)
			}
			if shell.check != nil {
				script := filepath.Join(h.dir, "script")
				c := exec.Command("aipctl", "completion", shell.name)
				c.Env = h.env
				out, err := c.Output()
				if err == nil {
					err = os.WriteFile(script, out, 0o600)
				}
				if err != nil {
					t.Fatal(err)
				}
				if said := run(append(slices.Clone(shell.check), script)...); said != "" {
					t.Errorf("reading the script, %s says %s", shell.name, said)
				}
			}
			flag := []string{"-c"}
			if shell.name == "zsh" {
				flag = []string{"-f", "-c"} // without the user's own files
			}
			got := run(append(flag, shell.ask)...)
			if !strings.Contains(got, "act_0001") || strings.Contains(got, "directive") {
				t.Errorf("%s completes with %q", shell.name, got)
			}
		})
	}
}
