// Package e2ecrowd holds the tests of what happens when nobody takes turns:
// hundreds of processes on one state file, processes that are killed at every
// place of a call, a line that breaks fifty times, a disk that is full. It also
// runs the state commands, which people use on the files that are left. It has
// tests only, and they run where there are POSIX signals and file locks.
//
// Invariants:
//
//   - Every process is real: this test binary under the name of the program, as
//     main starts it. Nothing that a test does to one could not be done to the
//     program.
//   - A process is killed where it stands, not after a time: the daemon, the
//     lock or a pipe holds it at the place the test is about. What chance there
//     is comes from a seed that a failure names.
//   - The daemon is the judge: how often it ran an action, what it was asked,
//     and which ids it has seen is taken from it and never from the program.
//   - No test looks at a clock. Waits end when what is waited for has come; the
//     one bound there is ends a test that hangs.
package e2ecrowd
