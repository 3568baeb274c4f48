package render

import (
	"strings"
	"testing"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/aipctl/aipctl/internal/transcript"
	"github.com/fatih/color"
)

func environment(kv ...string) func(string) string {
	return func(name string) string {
		for i := 0; i < len(kv); i += 2 {
			if kv[i] == name {
				return kv[i+1]
			}
		}
		return ""
	}
}

func TestUseColor(t *testing.T) {
	for name, tt := range map[string]struct {
		mode   ColorMode
		format Format
		env    []string
		tty    bool
		want   bool
	}{
		"a terminal is coloured":                     {tty: true, want: true},
		"a pipe is not":                              {},
		"always colours a pipe":                      {mode: ColorAlways, want: true},
		"always beats NO_COLOR":                      {mode: ColorAlways, env: []string{"NO_COLOR", "1"}, want: true},
		"always beats CLICOLOR=0":                    {mode: ColorAlways, env: []string{"CLICOLOR", "0"}, want: true},
		"always beats TERM=dumb":                     {mode: ColorAlways, env: []string{"TERM", "dumb"}, want: true},
		"never beats a terminal":                     {mode: ColorNever, tty: true},
		"never beats CLICOLOR_FORCE":                 {mode: ColorNever, env: []string{"CLICOLOR_FORCE", "1"}, tty: true},
		"NO_COLOR beats a terminal":                  {env: []string{"NO_COLOR", "1"}, tty: true},
		"NO_COLOR counts whatever it says":           {env: []string{"NO_COLOR", "0"}, tty: true},
		"an empty NO_COLOR is not set":               {env: []string{"NO_COLOR", ""}, tty: true, want: true},
		"NO_COLOR beats CLICOLOR_FORCE":              {env: []string{"NO_COLOR", "1", "CLICOLOR_FORCE", "1"}, tty: true},
		"CLICOLOR_FORCE colours a pipe":              {env: []string{"CLICOLOR_FORCE", "1"}, want: true},
		"CLICOLOR_FORCE=0 forces nothing":            {env: []string{"CLICOLOR_FORCE", "0"}},
		"CLICOLOR_FORCE=0 leaves a terminal alone":   {env: []string{"CLICOLOR_FORCE", "0"}, tty: true, want: true},
		"an empty CLICOLOR_FORCE is not set":         {env: []string{"CLICOLOR_FORCE", ""}},
		"CLICOLOR_FORCE beats CLICOLOR=0":            {env: []string{"CLICOLOR_FORCE", "1", "CLICOLOR", "0"}, want: true},
		"CLICOLOR_FORCE beats TERM=dumb":             {env: []string{"CLICOLOR_FORCE", "1", "TERM", "dumb"}, want: true},
		"CLICOLOR=0 beats a terminal":                {env: []string{"CLICOLOR", "0"}, tty: true},
		"CLICOLOR=1 colours no pipe":                 {env: []string{"CLICOLOR", "1"}},
		"TERM=dumb beats a terminal":                 {env: []string{"TERM", "dumb"}, tty: true},
		"JSON is not coloured even when asked":       {mode: ColorAlways, format: JSON, tty: true},
		"JSON Lines are not coloured even if forced": {format: JSONL, env: []string{"CLICOLOR_FORCE", "1"}, tty: true},
	} {
		t.Run(name, func(t *testing.T) {
			if got := UseColor(tt.mode, tt.format, environment(tt.env...), tt.tty); got != tt.want {
				t.Errorf("UseColor = %v, want %v", got, tt.want)
			}
		})
	}
}

// The library decides by the stdout of the process and by NO_COLOR at the
// time an entry is made; a palette follows neither.
func TestPaletteFollowsOnlyItsOwnSwitch(t *testing.T) {
	before := color.NoColor
	t.Cleanup(func() { color.NoColor = before })
	for _, global := range []bool{false, true} {
		for _, noColor := range []string{"", "1"} {
			color.NoColor = global
			t.Setenv("NO_COLOR", noColor)
			for _, s := range []style{dim, good, attention, bad} {
				if got := newPalette(false).paint(s, sanitize.Static("x")); got != "x" {
					t.Errorf("style %d, global %v, NO_COLOR %q: off gives %q", s, global, noColor, got)
				}
				got := newPalette(true).paint(s, sanitize.Static("x"))
				if !strings.HasPrefix(got, "\x1b[") || !strings.HasSuffix(got, "m") || !strings.Contains(got, "x") {
					t.Errorf("style %d, global %v, NO_COLOR %q: on gives %q", s, global, noColor, got)
				}
			}
		}
	}
	if got := newPalette(true).paint(plain, sanitize.Static("x")); got != "x" {
		t.Errorf("plain gives %q", got)
	}
}

// Each stream has its own policy: the answer goes uncoloured to a pipe while
// the lines beside it are coloured on the terminal, and the other way round
// nothing of the colour of one gets into the other.
func TestColourIsDecidedForEachStream(t *testing.T) {
	for name, tt := range map[string]struct {
		options Options
		want    bool
	}{
		"stderr is a terminal": {Options{StderrTTY: true}, true},
		"stdout is a terminal": {Options{StdoutTTY: true}, false},
	} {
		t.Run(name, func(t *testing.T) {
			g := newRig(t, tt.options)
			g.identity()
			g.play(toolFrames)
			g.r.Error(fault.New(fault.Internal, "x", "trouble"))
			g.outcome(nil)
			if got := strings.Contains(g.err.String(), "\x1b["); got != tt.want {
				t.Errorf("stderr coloured = %v, want %v: %q", got, tt.want, g.err.String())
			}
			if strings.Contains(g.out.String(), "\x1b") {
				t.Errorf("the answer is coloured: %q", g.out.String())
			}
		})
	}
}

func TestParseNames(t *testing.T) {
	for _, f := range []Format{Text, JSON, JSONL} {
		if got, err := ParseFormat(f.String()); got != f || err != nil {
			t.Errorf("ParseFormat(%q) = %v, %v", f.String(), got, err)
		}
	}
	for _, m := range []ColorMode{ColorAuto, ColorAlways, ColorNever} {
		if got, err := ParseColor(m.String()); got != m || err != nil {
			t.Errorf("ParseColor(%q) = %v, %v", m.String(), got, err)
		}
	}
	for _, bad := range []string{"", "yaml", "TEXT"} {
		if _, err := ParseFormat(bad); fault.ClassOf(err) != fault.Usage {
			t.Errorf("ParseFormat(%q): %v", bad, err)
		}
		if _, err := ParseColor(bad); fault.ClassOf(err) != fault.Usage {
			t.Errorf("ParseColor(%q): %v", bad, err)
		}
	}
}

// The whole table: every value of the flag, of the four variables and of the
// format, for each of the two streams being a terminal or not. Colour stands on
// stderr where the table says so, and nowhere else: stdout carries the answer
// or records, and is never painted.
func TestColorOfEachStream(t *testing.T) {
	// want is the table in other words than the code: the flag, then what the
	// user said in the environment, then what the terminal is.
	want := func(mode ColorMode, f Format, noColor, force, clicolor, term string, tty bool) bool {
		if f != Text {
			return false
		}
		if mode != ColorAuto {
			return mode == ColorAlways
		}
		said := map[bool]string{true: "no", false: ""}[clicolor == "0" || term == "dumb"]
		if force == "1" {
			said = "yes"
		}
		if noColor != "" {
			said = "no"
		}
		return said == "yes" || said == "" && tty
	}
	rows := 0
	for _, mode := range []ColorMode{ColorAuto, ColorAlways, ColorNever} {
		for _, f := range []Format{Text, JSON, JSONL} {
			for _, noColor := range []string{"", "0", "1"} {
				for _, force := range []string{"", "0", "1"} {
					for _, clicolor := range []string{"", "0", "1"} {
						for _, term := range []string{"", "xterm-256color", "dumb"} {
							for tty := range 4 {
								rows++
								o := Options{
									Format: f, Color: mode, StdoutTTY: tty&1 != 0, StderrTTY: tty&2 != 0,
									Env: environment("NO_COLOR", noColor, "CLICOLOR_FORCE", force, "CLICOLOR", clicolor, "TERM", term),
								}
								g := newRig(t, o)
								g.identity()
								g.deliver(0, transcript.Text{Text: "answer"})
								g.ok(g.r.Warning(record.Warning{Message: "w"}))
								g.outcome(nil)
								g.r.Error(fault.New(fault.Auth, "auth.x", "refused"))
								got := strings.Contains(g.err.String(), "\x1b[3")
								if w := want(mode, f, noColor, force, clicolor, term, o.StderrTTY); got != w {
									t.Fatalf("--color %s, %s, NO_COLOR=%q CLICOLOR_FORCE=%q CLICOLOR=%q TERM=%q, terminals %b: stderr coloured %v, want %v", mode, f, noColor, force, clicolor, term, tty, got, w)
								}
								if strings.Contains(g.out.String(), "\x1b") {
									t.Fatalf("stdout is painted: %q", g.out.String())
								}
							}
						}
					}
				}
			}
		}
	}
	if rows != 3*3*3*3*3*3*4 {
		t.Errorf("%d rows", rows)
	}
}
