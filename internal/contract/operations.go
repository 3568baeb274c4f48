package contract

// Known is an operation that the Hermes connector publishes.
type Known struct {
	Operation string
	Does      string // a few words, in lower case
}

// Operations lists what the Hermes connector publishes, the most wanted first.
// A daemon may offer fewer, and other ones.
func Operations() []Known {
	return []Known{
		{"chat_stream", "chat, and watch the answer"},
		{"responses_stream", "a response that can be stored and continued, and watch it"},
		{"chat", "chat, and get the answer at its end"},
		{"responses", "a response that can be stored and continued, at its end"},
		{"response_get", "read a stored response"},
		{"response_delete", "delete a stored response"},
		{"operator", "let the agent work until it is done"},
		{"run_start", "start a run"},
		{"run_events", "watch a run"},
		{"run_status", "how a run stands"},
		{"run_approval", "decide what a run asks for"},
		{"run_stop", "stop a run"},
		{"session_chat_stream", "chat in a session, and watch the answer"},
		{"session_chat", "chat in a session"},
		{"sessions_list", "list sessions"},
		{"session_create", "make a session"},
		{"session_get", "read a session"},
		{"session_messages", "read the messages of a session"},
		{"session_patch", "change a session"},
		{"session_fork", "go on from a session in another one"},
		{"session_delete", "delete a session"},
		{"jobs_list", "list jobs"},
		{"job_create", "make a job"},
		{"job_get", "read a job"},
		{"job_update", "change a job"},
		{"job_run", "run a job now"},
		{"job_pause", "pause a job"},
		{"job_resume", "let a paused job go on"},
		{"job_delete", "delete a job"},
		{"models", "the models that the agent can use"},
		{"capabilities", "what the agent can do"},
		{"skills", "the agent's skills"},
		{"toolsets", "the agent's tools"},
		{"health", "whether the agent answers"},
		{"health_detailed", "how the agent is"},
	}
}
