package cmd

import (
	"embed"
	"fmt"
	"slices"
	"strings"

	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/manual"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/state"
	"github.com/aipctl/aipctl/internal/verdict"
	"github.com/spf13/cobra"
)

// topics are the pages of help that belong to no command, in the order in which
// a reader wants to know them. Each has a file of that name, whose first line
// says what it is about.
var topics = []string{"exit-codes", "output", "environment", "flags", "state", "redaction", "glossary"}

//go:embed topics
var topicFiles embed.FS

func isTopic(name string) bool { return slices.Contains(topics, name) }

// topicText gives purpose and text of a topic.
func topicText(name string) (purpose, text string) {
	raw, err := topicFiles.ReadFile("topics/" + name + ".txt")
	if err != nil {
		return "", "" // a test opens every one
	}
	purpose, text, _ = strings.Cut(string(raw), "\n")
	return purpose, text
}

// topicPage is a topic with its tables filled in.
func topicPage(root *cobra.Command, name string) manual.Page {
	purpose, text := topicText(name)
	p := manual.Page{Title: root.Name() + " help " + name, Purpose: purpose, Sections: manual.Parse(text, topicTables(root, name))}
	if name == "flags" {
		p.Sections = append(p.Sections, globalFlags(root)...)
	}
	return p
}

// topicTables are the parts of a topic that the code knows better than a text.
func topicTables(root *cobra.Command, name string) map[string][]manual.Block {
	tables := map[string][]manual.Block{}
	fill := func(name string, terms manual.Terms) { tables[name] = []manual.Block{terms} }
	switch name {
	case "exit-codes":
		fill("exits", exitTable())
		fill("codes", codeTable())
	case "environment":
		fill("environment", environmentTable())
	case "output":
		fill("records", recordTable())
	case "redaction":
		var headers manual.Terms
		for _, h := range client.LoggedHeaders() {
			headers = append(headers, manual.Term{Name: h})
		}
		fill("headers", headers)
	case "state":
		fill("places", placeTable())
		fill("commands", childTable(findCommand(root, "state"), true))
	}
	return tables
}

func exitTable() manual.Terms {
	var out manual.Terms
	for _, e := range fault.Exits() {
		out = append(out, manual.Term{Name: fmt.Sprintf("%3d  %s", e.Class.Code(), e.Name), Text: e.When})
	}
	return out
}

func codeTable() manual.Terms {
	var out manual.Terms
	for _, row := range verdict.CodeTable() {
		out = append(out, manual.Term{Name: fmt.Sprintf("%s, %d", row.Reading, row.Reading.Code()), Text: row.Codes})
	}
	return out
}

func environmentTable() manual.Terms {
	var out manual.Terms
	for _, v := range environment() {
		text := v.does
		if v.beaten != "" {
			text += "; beaten by " + v.beaten
		}
		out = append(out, manual.Term{Name: v.name, Text: text})
	}
	return out
}

// recordTable says what each type of record that an action prints is for.
func recordTable() manual.Terms {
	return manual.Terms{
		{Name: record.TypeIdentity, Text: "the action id, and the commands to come back and to cancel, as argv"},
		{Name: record.TypeState, Text: "what the client does: connecting, following, reconnecting and why"},
		{Name: record.TypeEvent, Text: "a step in the life of the action"},
		{Name: record.TypeChunk, Text: "a piece of the stream, with the provider's event by its own names"},
		{Name: record.TypeText, Text: "a piece of the answer"},
		{Name: record.TypeTool, Text: "a change of a tool call: its name, call id, state and time"},
		{Name: record.TypeItem, Text: "an item of an answer that has several"},
		{Name: record.TypeWarning, Text: "what deserves attention and changes no verdict, unless --fail-on-warning says so"},
		{Name: record.TypeGap, Text: "chunks that nobody could deliver"},
		{Name: record.TypeOutcome, Text: "the verdict, the exit code, every check, and the next command as argv"},
		{Name: record.TypeError, Text: "why a command ended without an outcome: code, message, hint; on stderr"},
	}
}

// placeTable says where the state file is on each system.
func placeTable() manual.Terms {
	var out manual.Terms
	for _, system := range []struct{ name, goos, variable string }{
		{"Linux", "linux", "HOME"}, {"macOS", "darwin", "HOME"}, {"Windows", "windows", "LOCALAPPDATA"},
	} {
		home := "/~"
		if system.goos == "windows" {
			home = `C:\~`
		}
		path, err := state.DefaultPath(func(name string) string {
			if name == system.variable {
				return home
			}
			return ""
		}, system.goos)
		if err != nil {
			continue // a test expects all three
		}
		shown := strings.Replace(path, home, map[string]string{"/~": "~", `C:\~`: `%LOCALAPPDATA%`}[home], 1)
		out = append(out, manual.Term{Name: system.name, Text: "`" + shown + "`"})
	}
	return append(out, manual.Term{Name: "any", Text: "`$XDG_STATE_HOME/aipctl/state.jsonl`, where XDG_STATE_HOME is an absolute path"})
}

// childTable lists the commands of a group by name, or by what a person types.
func childTable(group *cobra.Command, whole bool) manual.Terms {
	var out manual.Terms
	for _, child := range group.Commands() {
		if !child.IsAvailableCommand() {
			continue
		}
		t := manual.Term{Name: child.Name(), Text: child.Short, Page: child.CommandPath()}
		if whole {
			t.Name = child.CommandPath()
		}
		out = append(out, t)
	}
	return out
}
