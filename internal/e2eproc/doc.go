// Package e2eproc runs the program as a person or a script runs it: as a
// process of its own, with real pipes, signals, files and exit codes, against
// the development daemon on loopback. It holds tests only, and they run where
// there are POSIX signals and a shell.
//
// Invariant: nothing waits for time to pass. The daemon is held at the chunk or
// the request that a test is about, and goes on when the test has seen what the
// process did; the one bound there is ends a test that hangs.
package e2eproc
