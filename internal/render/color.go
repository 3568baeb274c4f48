package render

import (
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/fatih/color"
)

// ColorMode is the value of the flag --color.
type ColorMode int

// The colour modes.
const (
	ColorAuto ColorMode = iota
	ColorAlways
	ColorNever
)

// String returns the name that [ParseColor] reads.
func (m ColorMode) String() string {
	switch m {
	case ColorAlways:
		return "always"
	case ColorNever:
		return "never"
	default:
		return "auto"
	}
}

// ParseColor reads auto, always or never. Any other name is a *fault.Error of
// class fault.Usage.
func ParseColor(s string) (ColorMode, error) {
	for _, m := range []ColorMode{ColorAuto, ColorAlways, ColorNever} {
		if s == m.String() {
			return m, nil
		}
	}
	return ColorAuto, fault.New(fault.Usage, "usage.color", "%q is no colour mode", s).
		WithHint("use auto, always or never")
}

// UseColor decides whether one stream is coloured: JSON never is; else the
// first that speaks of the flag, NO_COLOR (any text), CLICOLOR_FORCE (any text
// but 0), CLICOLOR=0, TERM=dumb; else whether the stream is a terminal.
func UseColor(m ColorMode, f Format, env func(string) string, tty bool) bool {
	force := env("CLICOLOR_FORCE")
	switch {
	case f != Text, m == ColorNever:
		return false
	case m == ColorAlways:
		return true
	case env("NO_COLOR") != "":
		return false
	case force != "" && force != "0":
		return true
	case env("CLICOLOR") == "0", env("TERM") == "dumb":
		return false
	default:
		return tty
	}
}

// style is the role of a line.
type style int

const (
	plain style = iota
	dim
	good
	attention
	bad
)

// palette colours one stream. The library would decide by the stdout of the
// process and by its own reading of the environment, so every entry is told
// whether it is on.
type palette map[style]*color.Color

func newPalette(on bool) palette {
	p := palette{
		dim:       color.New(color.Faint),
		good:      color.New(color.FgGreen),
		attention: color.New(color.FgYellow),
		bad:       color.New(color.FgRed),
	}
	for _, c := range p {
		if on {
			c.EnableColor()
		} else {
			c.DisableColor()
		}
	}
	return p
}

// paint returns the text in the colour of its role.
func (p palette) paint(s style, t sanitize.Text) string {
	c, ok := p[s]
	if !ok || t.IsEmpty() {
		return t.String()
	}
	return c.Sprint(t.String())
}
