// Package e2e holds the tests that run whole commands against a daemon on
// loopback and judge what comes out of them: the bytes of stdout, the exit
// code, the outcome record, and every request that was made. It has tests only.
//
//   - The cases: recorded daemons, each of which broke a stream client
//     somewhere. Every folder of testdata/cases has a test here, or the run
//     fails.
//   - The streams: whole recordings below the SSE layer, served by a small
//     daemon of this package. What must come out of each stands in
//     testdata/streams.tsv.
//   - The hand-written tables of the module: flips, scenarios, answers to the
//     submit.
//
// Invariant: what is expected is written down from the contract and from the
// protocol. It is never taken from a run of the program, and where a run says
// otherwise the program is wrong until the rule itself has been changed.
package e2e
