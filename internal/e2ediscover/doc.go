// Package e2ediscover holds the tests of what is asked before a call: which
// capabilities there are, whether an input fits, and whether anything at all
// works. They drive whole commands against a daemon on loopback whose catalogue
// and manifest answer as each test says. It has tests only.
package e2ediscover
