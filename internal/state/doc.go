// Package state keeps the state file: what this client set out to do, how far
// it has read, and how each action ended. It is an append-only file of JSON
// Lines, one [Record] a line, so that people can read it with jq, two files
// merge by concatenation, and a crash can spoil the last line at most.
//
// Invariants:
//
//   - Nothing is ever rewritten in place. A record is added under an exclusive
//     lock, in one write, after whatever the file holds; where that write
//     fails, the file is cut back to what it was.
//   - An intent is on disk, file and folder flushed, before [File.RecordIntent]
//     returns nil; the caller sends the first byte of a request only then. The
//     flush needs no lock and holds none: others write meanwhile.
//   - An action id gets a second intent only when every earlier one is known
//     not to have been sent. The check and the write are under one lock.
//   - A damaged line hides no other line, is always reported, and is left as
//     it is.
//   - Reading takes no lock, creates nothing, and does not depend on the order
//     of the lines.
//   - No prompt, output, tool payload or token has a field to be written to.
package state
