package render

import "github.com/aipctl/aipctl/internal/sanitize"

// Log writes one line to stderr in every format, for what was asked for with
// --verbose or --debug-http.
func (r *Renderer) Log(t sanitize.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.beside(plain, t)
}

// beside writes a line that is not of the run, behind those that the run has
// waiting.
func (r *Renderer) beside(s style, t sanitize.Text) {
	if n, ok := r.mode.(*narration); ok {
		n.release()
	}
	r.con.line(s, t)
}

// Aside writes a dim line to stderr, in text and unless quiet: what is good to
// know and needs no answer.
func (r *Renderer) Aside(t sanitize.Text) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.opts.Format == Text && !r.opts.Quiet {
		r.beside(dim, t)
	}
}
