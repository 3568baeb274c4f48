// Package identity makes and checks what names an action and its caller: action
// ids, idempotency keys, input hashes, capability ids, bearer tokens and the
// fingerprint that stands for a token where it must not be written.
//
// Invariants:
//
//   - The text of a token leaves this package through [Token.Reveal] alone. No
//     format verb, encoder or error shows it.
//   - A token file is judged by the opened file, never by its name, so it cannot
//     be exchanged between the check and the reading.
//   - What cannot be an HTTP header value is refused here, by name of file and
//     reason, before any request exists.
package identity
