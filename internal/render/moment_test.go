package render

import "testing"

func TestMomentIsToTheSecond(t *testing.T) {
	for at, want := range map[string]string{
		"2026-12-01T03:46:57.26005493Z":  "2026-12-01T03:46:57Z",
		"2026-12-01T05:46:57+02:00":      "2026-12-01T03:46:57Z",
		"2026-12-01T03:46:57.999999999Z": "2026-12-01T03:46:57Z",
		"soon\x1b[2J":                    `soon\x1b[2J`,
	} {
		if got := moment(at).String(); got != want {
			t.Errorf("%q is %q, want %q", at, got, want)
		}
	}
}
