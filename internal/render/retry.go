package render

import (
	"github.com/aipctl/aipctl/internal/aip"
	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// retryShown is the retry object of a status without what it repeats of an
// error: of that only the code is shown, for messages, reasons and details may
// repeat prompts, outputs and credentials. An object that holds none of it
// stays as it is, to the byte; what is no object is not shown.
func retryShown(retry jsontext.Value) jsontext.Value {
	const lastError, reason = "last_error", "dead_letter_reason"
	var m map[string]jsontext.Value
	if json.Unmarshal(retry, &m, jsontext.AllowInvalidUTF8(true), jsontext.AllowDuplicateNames(true)) != nil {
		return nil
	}
	if m[lastError] == nil && m[reason] == nil {
		return retry
	}
	delete(m, reason)
	if e := m[lastError]; e.Kind() != 'n' {
		delete(m, lastError)
		body := append(append([]byte(`{"error":`), e...), '}')
		if proto, _ := aip.DecodeError("application/json", body); proto != nil {
			m[lastError] = jsontext.Value(`{"code":"` + proto.Code + `"}`) // a code needs no escapes
		}
	}
	b, err := json.Marshal(m, json.Deterministic(true), jsontext.AllowInvalidUTF8(true))
	if err != nil {
		return nil
	}
	return b
}
