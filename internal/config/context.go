package config

import (
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
)

// Context is a daemon with a name. A field may be empty.
type Context struct {
	Name string `toml:"-"`

	URL       string `toml:"url"`
	TokenFile string `toml:"token_file"` // absolute path
	Endpoint  string `toml:"endpoint"`   // of an operation that names none
	CAFile    string `toml:"ca_file"`    // absolute path
	Principal string `toml:"principal"`  // recorded with what is submitted, and sent with decisions about approvals only
	Tenant    string `toml:"tenant"`     // the same
}

// Fields are the keys of a context in the file, in the order in which they are
// written and shown.
func Fields() []string {
	return []string{"url", "token_file", "endpoint", "ca_file", "principal", "tenant"}
}

// Field returns the value of one of [Fields]; empty for any other name.
func (c Context) Field(name string) string {
	switch name {
	case "url":
		return c.URL
	case "token_file":
		return c.TokenFile
	case "endpoint":
		return c.Endpoint
	case "ca_file":
		return c.CAFile
	case "principal":
		return c.Principal
	case "tenant":
		return c.Tenant
	}
	return ""
}

// CheckName refuses what cannot be the name of a context: it has 1 to 63
// letters, digits, underscores and hyphens, the first of them a letter or a
// digit. The error is of class [fault.Usage].
func CheckName(name string) error {
	switch {
	case isName(name):
		return nil
	case name == "":
		return fault.New(fault.Usage, "context.name", "the name of the context is empty").
			WithHint("a shell variable may be empty; `aipctl context list` shows the names")
	}
	return fault.New(fault.Usage, "context.name", "%q cannot be the name of a context", name).
		WithHint("use 1 to 63 letters, digits, underscores and hyphens, beginning with a letter or a digit")
}

// isName holds a name to an alphabet that needs quotes neither in a shell nor
// in TOML.
func isName(s string) bool {
	const letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
	return s != "" && len(s) <= 63 && strings.Contains(letters, s[:1]) && strings.Trim(s, letters+"_-") == ""
}
