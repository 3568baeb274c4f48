package devserver

import (
	"os"
	"strings"
	"testing"
)

// TestThePageAboutTheDaemon holds that the page names what people have to type:
// the responses that are kept from the start, and the principals.
func TestThePageAboutTheDaemon(t *testing.T) {
	text, err := os.ReadFile("../../docs/dev-daemon.md")
	if err != nil {
		t.Fatal(err)
	}
	said := []string{Requester().ID, Approver().ID}
	for state, id := range SeededResponses() {
		said = append(said, "| `"+state+"` | `"+id+"` |")
	}
	for _, sc := range append(storedScenarios(), deleteScenarios()...) {
		said = append(said, "`"+sc.Name+"`")
	}
	for _, want := range said {
		if !strings.Contains(string(text), want) {
			t.Errorf("docs/dev-daemon.md does not say %s", want)
		}
	}
}
