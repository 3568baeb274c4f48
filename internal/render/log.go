package render

import "github.com/aipctl/aipctl/internal/sanitize"

// Log writes one line to stderr in every format, for what was asked for with
// --verbose or --debug-http.
func (r *Renderer) Log(t sanitize.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.con.line(plain, t)
}
