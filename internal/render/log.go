package render

import "github.com/aipctl/aipctl/internal/sanitize"

// Log writes one line to stderr in every format, for what was asked for with
// --verbose or --debug-http.
func (r *Renderer) Log(t sanitize.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.con.line(plain, t)
}

// Aside writes a dim line to stderr, in text and unless quiet: what is good to
// know and needs no answer.
func (r *Renderer) Aside(t sanitize.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Format == Text && !r.opts.Quiet {
		r.con.line(dim, t)
	}
}
