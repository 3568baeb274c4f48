package cmd

import (
	"runtime"
	"runtime/debug"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/record"
	"github.com/aipctl/aipctl/internal/sanitize"
	"github.com/spf13/cobra"
)

// versionRecord says what this program is.
type versionRecord struct {
	record.Head
	Version string `json:"version"`          // semantic version, or dev
	Commit  string `json:"commit,omitempty"` // of the source
	Date    string `json:"date,omitempty"`   // RFC 3339, of the build or the commit
	Go      string `json:"go"`               // version of Go that built it
	OS      string `json:"os"`               // by Go's name
	Arch    string `json:"arch"`             // by Go's name
}

func newVersionCmd(r *run) *cobra.Command {
	return r.leaf(&cobra.Command{
		Use:  "version",
		Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			out := r.renderer()
			v := versionRecord{
				Head: record.NewHead("version"), Version: r.Version.Version, Commit: r.Version.Commit, Date: r.Version.Date,
				Go: runtime.Version(), OS: runtime.GOOS, Arch: runtime.GOARCH,
			}
			if info, ok := debug.ReadBuildInfo(); ok {
				v.fillFrom(info)
			}
			if err := out.Record(v); err != nil {
				return err
			}
			line := sanitize.Format("aipctl %s", sanitize.Line(v.Version))
			if v.Commit != "" {
				line = sanitize.Format("%s (%s)", line, sanitize.LineMax(v.Commit, 12))
			}
			return out.Line(sanitize.Format("%s, %s %s/%s", line, sanitize.Line(v.Go), sanitize.Line(v.OS), sanitize.Line(v.Arch)))
		},
	}, page{
		Purpose: "Print the version of this program",
		About:   "Prints version, commit, Go version, system and processor.",
		Never:   "It never asks the network, not even for a newer version.",
		Examples: []example{
			{"for a person", "aipctl version"},
			{"for a report of an error", "aipctl version -o json"},
		},
		Exits:   []exit{{fault.Accepted, "the version was printed"}},
		See:     []string{"help exit-codes"},
		Without: []flagGroup{connectionFlags, waitingFlags, safetyFlags, answerFlags},
	})
}

// fillFrom takes what the Go toolchain stamped where the linker set nothing.
func (v *versionRecord) fillFrom(info *debug.BuildInfo) {
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision" && v.Commit == "":
			v.Commit = s.Value
		case s.Key == "vcs.time" && v.Date == "":
			v.Date = s.Value
		}
	}
}

func noArgs(cmd *cobra.Command, args []string) error { return argCount(cmd, args, 0, 0, "nothing") }
