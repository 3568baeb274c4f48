package e2e_test

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// contextScenes are about the file of the contexts, which somebody wrote by
// hand.
var contextScenes = []scene{
	{
		name: "the list of the contexts",
		fields: map[string]string{
			"url": "out json jsonl", "key": "err json", "name": "err json", "current": "err json",
			"endpoint": "json jsonl", "principal": "json jsonl", "tenant": "json jsonl", "token": "json jsonl", "ca": "json jsonl",
		},
		valid: true, light: true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeContexts(t, "config.toml", "current = "+inTOML(put("current"))+"\n"+aContext(put)+inTOML(put("key"))+" = 1\n"+
				"[contexts."+inTOML(put("name"))+"]\nurl = \"http://other\"\n")
			return []string{"context", "list"}
		},
	},
	{
		name: "a context",
		fields: map[string]string{
			"url": "out json jsonl", "key": "err json jsonl",
			"endpoint": "out json jsonl", "principal": "out json jsonl", "tenant": "out json jsonl", "token": "out json jsonl", "ca": "out json jsonl",
		},
		valid: true, light: true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeContexts(t, "config.toml", aContext(put)+inTOML(put("key"))+" = 1\n")
			return []string{"context", "show", "lab"}
		},
	},
	{
		name: "a context that is deleted",
		fields: map[string]string{
			"url": "json jsonl", "endpoint": "err json jsonl", "principal": "err json jsonl", "tenant": "err json jsonl", "token": "err json jsonl", "ca": "err json jsonl",
		},
		valid: true, light: true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeContexts(t, "config.toml", aContext(put))
			return []string{"context", "delete", "lab"}
		},
	},
	{
		name:   "a file of the contexts that is damaged",
		fields: map[string]string{"path": "err json jsonl"},
		bytes:  true, light: true, says: "the file is damaged",
		play: func(t *testing.T, w *world, _, arg func(string) string) []string {
			w.writeContexts(t, fileName(arg("path")), arg("line")+"\n[contexts.lab]\nurl = "+arg("value")+"\n")
			return []string{"context", "list"}
		},
	},
	{
		name:   "a file of the contexts of a wrong kind",
		fields: map[string]string{"key": "err json jsonl"},
		valid:  true, light: true, says: "is of a wrong kind",
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeContexts(t, "config.toml", "[contexts]\n"+inTOML(put("key"))+" = 1\n")
			return []string{"context", "list"}
		},
	},
	{
		name:   "settings that a context names",
		fields: map[string]string{"token": "err json jsonl"},
		valid:  true, light: true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeContexts(t, "config.toml", strings.Replace(aContext(put), inTOML(put("url")), `"`+nobody+`"`, 1))
			return []string{"action", "status", "act_h", "--context", "lab"}
		},
	},
	{
		name:   "a token file that is kept",
		fields: map[string]string{"token": "err json jsonl"},
		valid:  true, light: true,
		play: func(t *testing.T, w *world, put, _ func(string) string) []string {
			w.writeContexts(t, "config.toml", "")
			return []string{"context", "set", "lab", "--token-file", "/nowhere/" + fileName(unquoted(put("token")))}
		},
	},
	{
		name:   "an environment that beats the contexts",
		fields: map[string]string{"context": "err", "url": "err"},
		bytes:  true, light: true,
		play: func(t *testing.T, w *world, _, arg func(string) string) []string {
			w.writeContexts(t, "config.toml", "[contexts.lab]\nurl = \"http://lab\"\n")
			w.env["AIPCTL_CONTEXT"], w.env["AIP_URL"] = arg("context"), arg("url")
			return []string{"context", "use", "lab"}
		},
	},
	words("a context by its name", "word", func(word string) []string { return []string{"context", "show", word} }),
	words("a context for one run", "", func(word string) []string {
		return []string{"action", "status", nobody, "act_h", "--context", word}
	}),
	words("a URL that is kept", "", func(word string) []string { return []string{"context", "set", "lab", "--url", "http://" + word} }),
	words("an endpoint that is kept", "", func(word string) []string { return []string{"context", "set", "lab", "--endpoint", word} }),
}

// aContext is a context by the name of lab. Its URL is one that may be shown
// whole, and its files have whole paths.
func aContext(put func(string) string) string {
	path := func(field string) string { return inTOML(`"/` + put(field)[1:]) }
	return fmt.Sprintf("[contexts.lab]\nurl = %s\ntoken_file = %s\nca_file = %s\nendpoint = %s\nprincipal = %s\ntenant = %s\n",
		inTOML(put("url")), path("token"), path("ca"), inTOML(put("endpoint")), inTOML(put("principal")), inTOML(put("tenant")))
}

// inTOML is a JSON string as a string or a key of TOML, with what may not stand
// there raw in escapes.
func inTOML(literal string) string {
	var s string
	if err := json.Unmarshal([]byte(literal), &s); err != nil {
		panic(err)
	}
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"', r == '\\':
			b.WriteString(`\` + string(r))
		case r < ' ', r == 0x7f:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteRune(r)
		}
	}
	return b.String() + `"`
}

// writeContexts writes the file of the contexts by hand.
func (w *world) writeContexts(t *testing.T, name, content string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
	w.env["AIPCTL_CONFIG"] = path
}
