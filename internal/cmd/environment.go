package cmd

// The environment variables that commands read by name.
const (
	envURL           = "AIP_URL"
	envTokenFile     = "AIP_TOKEN_FILE"
	envTokenFilePeer = "GETAIP_NATIVE_BEARER_TOKEN_FILE"
	envToken         = "AIP_TOKEN"
	envCAFilePeer    = "GETAIP_NATIVE_TLS_CA_FILE"
	envCapability    = "AIP_CAPABILITY_ID"
	envAction        = "AIP_ACTION_ID"
	envContext       = "AIPCTL_CONTEXT"
	envConfig        = "AIPCTL_CONFIG"
	envState         = "AIPCTL_STATE"
)

// A variable is one row of the table of environment variables.
type variable struct {
	name   string // or several that mean the same, with commas
	does   string // half a sentence: no capital, no full stop
	beaten string // what beats it: flags, an argument, another variable; empty for nothing
}

// environment returns every environment variable that changes what the program
// does, in the order in which a reader wants to know them. It is the one list:
// help and docs are printed from it, and a test compares it with what the code
// reads. An empty variable counts as one that is not set.
func environment() []variable {
	return []variable{
		{envURL, "the daemon's URL", "the URL argument, --url"},
		{envTokenFile, "owner-only file with the bearer token", "--token-file, --native-bearer-token-file"},
		{envTokenFilePeer, "the same, by the name that another client gives it", "the two flags, " + envTokenFile},
		{envToken, "the bearer token itself; a file is safer, for other programs can read an environment", "every token file that a flag or a variable names"},
		{envCAFilePeer, "PEM file with certificates to trust beside the system's", "--ca-file, --native-tls-ca-file"},
		{envCapability, "the capability of `action call`", "the CAPABILITY argument"},
		{envAction, "the action of `action events`, `action status` and `action result`; nothing that changes an action reads it", "the ACTION argument"},
		{envContext, "the context that fills in what neither flag nor environment names", "--context"},
		{envConfig, "the file that keeps the contexts", ""},
		{envState, "the state file, or off", "--state"},
		{"NO_COLOR", "any text turns colour off", "--color"},
		{"CLICOLOR_FORCE", "any text but 0 turns colour on without a terminal too", "--color, NO_COLOR"},
		{"CLICOLOR", "0 turns colour off", "--color, NO_COLOR, CLICOLOR_FORCE"},
		{"TERM", "dumb means a terminal without colour and without a status line", "--color, CLICOLOR_FORCE"},
		{"TMUX", "any text means a terminal that wraps its lines anew when it gets narrower, so that the status line can be taken away whole; a TERM that begins with tmux says the same", ""},
		{"CI", "any text but 0 and false means that nobody watches: lines with a time stamp, no status line", ""},
		{"HTTPS_PROXY, HTTP_PROXY, https_proxy, http_proxy", "the proxy for URLs of that scheme; never used for this machine", "NO_PROXY"},
		{"NO_PROXY, no_proxy", "hosts that are reached without a proxy, with commas", ""},
		{"SSL_CERT_FILE, SSL_CERT_DIR", "the system's certificates, where the system is neither macOS nor Windows", ""},
		{"XDG_CONFIG_HOME", "the folder above aipctl/config.toml", envConfig},
		{"XDG_STATE_HOME", "the folder above aipctl/state.jsonl", "--state, " + envState},
		{"HOME, USERPROFILE, APPDATA, LOCALAPPDATA", "where these two folders are when nothing else names them", "XDG_CONFIG_HOME, XDG_STATE_HOME"},
		{"TMPDIR, TMP, TEMP", "where `demo` and `dev serve` put their temporary files", ""},
		{"COMSPEC", "the shell of --effect-check on Windows; elsewhere it is /bin/sh", ""},
	}
}
