package state

import (
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
)

func TestDefaultPath(t *testing.T) {
	for _, tt := range []struct {
		rule, goos string
		env        map[string]string
		want       string // empty for class state
	}{
		{"XDG_STATE_HOME wins on linux", "linux", map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/home/a"}, "/s/aipctl/state.jsonl"},
		{"XDG_STATE_HOME wins on darwin", "darwin", map[string]string{"XDG_STATE_HOME": "/s", "HOME": "/Users/a"}, "/s/aipctl/state.jsonl"},
		{"XDG_STATE_HOME wins on windows", "windows", map[string]string{"XDG_STATE_HOME": `D:\s`, "LOCALAPPDATA": `C:\l`}, `D:\s\aipctl\state.jsonl`},
		{"a relative XDG_STATE_HOME is ignored", "linux", map[string]string{"XDG_STATE_HOME": "s", "HOME": "/home/a"}, "/home/a/.local/state/aipctl/state.jsonl"},
		{"a unix XDG_STATE_HOME is relative on windows", "windows", map[string]string{"XDG_STATE_HOME": "/s", "LOCALAPPDATA": `C:\l`}, `C:\l\aipctl\state.jsonl`},
		{"home on linux", "linux", map[string]string{"HOME": "/home/a"}, "/home/a/.local/state/aipctl/state.jsonl"},
		{"home on freebsd", "freebsd", map[string]string{"HOME": "/home/a/"}, "/home/a/.local/state/aipctl/state.jsonl"},
		{"home is the root", "linux", map[string]string{"HOME": "/"}, "/.local/state/aipctl/state.jsonl"},
		{"Application Support on darwin", "darwin", map[string]string{"HOME": "/Users/a"}, "/Users/a/Library/Application Support/aipctl/state.jsonl"},
		{"LOCALAPPDATA on windows", "windows", map[string]string{"LOCALAPPDATA": `C:\Users\a\AppData\Local`}, `C:\Users\a\AppData\Local\aipctl\state.jsonl`},
		{"a share on windows", "windows", map[string]string{"LOCALAPPDATA": `\\srv\a`}, `\\srv\a\aipctl\state.jsonl`},
		{"USERPROFILE stands in on windows", "windows", map[string]string{"USERPROFILE": `C:\Users\a`}, `C:\Users\a\AppData\Local\aipctl\state.jsonl`},
		{"no home on linux", "linux", nil, ""},
		{"a relative home on linux", "linux", map[string]string{"HOME": "a"}, ""},
		{"no home on darwin", "darwin", nil, ""},
		{"no home on windows", "windows", map[string]string{"HOME": "/home/a"}, ""},
	} {
		t.Run(tt.rule, func(t *testing.T) {
			got, err := DefaultPath(func(name string) string { return tt.env[name] }, tt.goos)
			if tt.want == "" {
				if e := faultOf(t, err, fault.State, "state.no_home"); e.Hint == "" {
					t.Error("no next step")
				}
			} else if err != nil {
				t.Fatal(err)
			}
			if got != tt.want {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}
