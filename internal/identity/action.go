package identity

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"strings"

	"github.com/aipctl/aipctl/internal/fault"
	"github.com/google/uuid"
)

// NewActionID returns a fresh action id: "act_" and a version 7 UUID as 32 hex
// digits, so that ids sort by the time they were made.
func NewActionID() string {
	id := uuid.Must(uuid.NewV7()) // fails only without randomness, which Go rules out
	return "act_" + hex.EncodeToString(id[:])
}

// NewMessageID mints an envelope's message id: "msg_" and a UUIDv7 as 32 hex
// digits. A daemon takes each one once, so every sending needs its own.
func NewMessageID() string {
	return "msg_" + strings.ReplaceAll(uuid.Must(uuid.NewV7()).String(), "-", "")
}

// ParseActionID checks an action id that a person gave: "act_" and 1 to 120 of
// [A-Za-z0-9._-]. Errors are of class [fault.Usage]; for the id of a stored
// response or of an approval they name the command that takes it.
func ParseActionID(s string) error {
	rest, isAction := strings.CutPrefix(s, "act_")
	switch {
	case isAction && MadeOf(rest, 120, "._-"):
		return nil
	case strings.HasPrefix(s, "resp_"):
		return otherKind("usage.action_id", s, "a stored response", "an action", "aipctl response get")
	case strings.HasPrefix(s, "appr_"):
		return otherKind("usage.action_id", s, "an approval", "an action", "aipctl approval get")
	case s == "":
		return fault.New(fault.Usage, "usage.action_id", "an action id is missing").
			WithHint("`aipctl state list` shows the actions of this machine")
	case !isAction:
		return fault.New(fault.Usage, "usage.action_id", "%s is no action id: it does not begin with act_", quote(s)).
			WithHint("`aipctl state list` shows the actions of this machine")
	case len(rest) > 120:
		return fault.New(fault.Usage, "usage.action_id", "the action id %s is too long: at most 120 characters follow act_", quote(s)).
			WithHint("give a shorter one")
	}
	return fault.New(fault.Usage, "usage.action_id", "%s is no action id: after act_ stand 1 to 120 letters, digits, dots, underscores or hyphens", quote(s)).
		WithHint("`aipctl state list` shows the actions of this machine")
}

// MadeOf reports whether s has 1 to most characters, each an ASCII letter, a
// digit or one of others.
func MadeOf(s string, most int, others string) bool {
	for _, r := range s {
		letter := r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z'
		if !letter && (r < '0' || r > '9') && !strings.ContainsRune(others, r) {
			return false
		}
	}
	return s != "" && len(s) <= most
}

func otherKind(code, s, is, wanted, command string) error {
	return fault.New(fault.Usage, code, "%s is the id of %s, not of %s; use `%s`", quote(s), is, wanted, command).
		WithHint("%s %s", command, printable(s))
}

// NewIdempotencyKey returns 128 random bits as 32 hex digits.
func NewIdempotencyKey() string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails, by its contract
	return hex.EncodeToString(b[:])
}

// InputHash names an input without holding it: "sha256:" and the hex digits of
// SHA-256 over the JSON text with insignificant white space removed. Key order
// and the spelling of numbers count, as they are sent as given. Text that is
// no JSON is hashed as it is.
func InputHash(input []byte) string {
	var compact bytes.Buffer
	if err := json.Compact(&compact, input); err == nil {
		input = compact.Bytes()
	}
	sum := sha256.Sum256(input)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// quote shows an argument in an error: escaped, and cut where it is long.
func quote(s string) string { return `"` + printable(s) + `"` }

func printable(s string) string {
	const limit = 140
	var b strings.Builder
	for i, r := range s {
		if i >= limit {
			b.WriteString("…")
			break
		}
		if r < 0x20 || r == 0x7f || r == '"' || r > 0x7e {
			b.WriteByte('?')
			continue
		}
		b.WriteRune(r)
	}
	return b.String()
}
