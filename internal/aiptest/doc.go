// Package aiptest is help for tests and is imported by tests only: a player
// that behaves as a daemon was seen to behave, a guard that lets no test leave
// the machine, a runner for command transcripts, and readers for the tables and
// recordings below the module's testdata folder.
//
// Invariant: nothing here knows the program. The player serves recorded bytes
// and interprets none of them, so a wrong reading of the protocol cannot stand
// on both sides of a test and cancel out.
package aiptest
