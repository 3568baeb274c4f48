// Package e2eproc runs the program as a person or a script runs it: as a
// process of its own, with real pipes, signals, files and exit codes, against
// the development daemon on loopback. It holds tests only, and they run where
// there are POSIX signals and a shell.
//
// Invariant: no test sleeps until something has probably happened. The daemon is
// held at the chunk or the request that a test is about, and goes on when the
// test has seen what the process did. Real time passes only where a rule is
// about it (--wait, --timeout, a daemon that is slow), and no test asks how much.
package e2eproc
