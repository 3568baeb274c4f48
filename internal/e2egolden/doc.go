// Package e2egolden holds the tests that run whole commands over every recorded
// stream, one Hermes operation after the other, and compare all that comes out
// with a reading of the stream that was made by hand. It has tests only.
//
//   - The goldens: each file of testdata/golden against its stream, in the
//     three forms of output.
//   - What an answer of several items, an event limit on the last frame and a
//     response id that is needed early come to.
//   - The checks of effects: commands that fail, hang, are not there, print
//     control sequences or are interrupted.
//   - Every refusal and every warning that comes before anything is sent.
//   - Coming back to a stream whose last event repeats the whole text.
//
// Invariant: what is expected stands in testdata or follows from a rule of the
// contract that the row names. It is never taken from a run of the program.
package e2egolden
