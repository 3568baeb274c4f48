// Package e2estored drives whole commands about stored responses and approvals
// against a daemon on loopback: the embedded one for everything that it plays,
// and a scripted one for answers that no daemon should give. What must come out
// is written by hand in two tables. Tests only.
package e2estored
