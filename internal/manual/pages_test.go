package manual

import (
	"os/exec"
	"strings"
	"testing"
)

// odd is a page of what the three languages could take for their own.
var odd = Page{
	Title: "tool help odd", Purpose: "What auth.* and [URL] mean, and `--now`",
	Usage: "tool odd [--flag a|b]",
	Sections: []Section{
		{Blocks: []Block{Para(".dot and 'quote and back\\slash, a_b_c, a < b, --flag, `x*y_z`, half-way")}},
		{Title: "See also", Blocks: []Block{
			Code{".hidden", "# a comment", "", "tool do 'x'"},
			Terms{{Name: "tool do", Text: "Do it", Page: "tool do"}, {Name: "-o, --output text|json", Text: "how"}, {Name: "bare"}},
		}},
	},
}

func TestMarkdown(t *testing.T) {
	var b strings.Builder
	if err := WriteMarkdown(&b, odd); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"# tool help odd\n\nWhat auth.\\* and \\[URL] mean, and `--now`.\n\n    tool odd [--flag a|b]\n",
		`.dot and 'quote and back\\slash, a\_b\_c, a \< b, --flag,`,
		"\n## See also\n\n    .hidden\n    # a comment\n\n    tool do 'x'\n",
		"\n- [`tool do`](tool-do.md): Do it\n- `-o, --output text|json`: how\n- `bare`\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, b.String())
		}
	}
}

func TestMan(t *testing.T) {
	var b strings.Builder
	if err := WriteMan(&b, odd); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`.TH "TOOL\-HELP\-ODD" "1" "" "aipctl" "aipctl manual"`,
		".SH NAME\ntool\\-help\\-odd \\- What auth.* and [URL] mean, and \\fB\\-\\-now\\fR\n",
		".SH SYNOPSIS\ntool odd [\\-\\-flag a|b]\n",
		".SH DESCRIPTION\n\\&.dot and \\(aqquote and back\\eslash, a_b_c, a < b, \\-\\-flag, \\fBx*y_z\\fR, half-way\n",
		".SH SEE ALSO\n.RS 4\n.nf\n\\&.hidden\n# a comment\n\ntool do \\(aqx\\(aq\n.fi\n.RE\n",
		".TP\n\\fBtool\\-do(1)\\fR\nDo it\n.TP\n\\fB\\-o, \\-\\-output text|json\\fR\nhow\n.TP\n\\fBbare\\fR\n",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("the page has no %q:\n%s", want, b.String())
		}
	}
	checkMan(t, b.String())
}

// checkMan asks the reader of man pages what it thinks, where there is one.
func checkMan(t *testing.T, page string) {
	t.Helper()
	mandoc, err := exec.LookPath("mandoc")
	if err != nil {
		t.Skip("no mandoc here")
	}
	c := exec.Command(mandoc, "-T", "lint", "-W", "warning")
	c.Stdin = strings.NewReader(page)
	out, _ := c.CombinedOutput()
	for line := range strings.SplitSeq(string(out), "\n") {
		if line != "" && !strings.Contains(line, "missing date") {
			t.Error(line)
		}
	}
}

func TestALoneBackquoteQuotesNothing(t *testing.T) {
	if got := markdownText("a_`b"); got != "a\\_`b" {
		t.Errorf("Markdown: %s", got)
	}
	if got := manText("a-`b"); got != `a-\(gab` {
		t.Errorf("man: %s", got)
	}
}
