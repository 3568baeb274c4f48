package aiptest

import (
	"bufio"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"
)

// defaultGap is the pause between two pieces where a plan names none, in
// milliseconds: long enough for the reader to have taken the first.
const defaultGap = 15

// resetPause lets the client take what was written before a reset: a reset
// throws away what still waits in the receiver's buffer.
const resetPause = 50 * time.Millisecond

func (p *Player) accept() {
	for {
		c, err := p.ln.Accept()
		if err != nil {
			return // the listener was closed
		}
		p.wg.Go(func() { p.serve(c.(*net.TCPConn)) })
	}
}

// serve answers one request. Errors of the connection are the client's doing
// (it may leave at any time) and end it without a word.
func (p *Player) serve(raw *net.TCPConn) {
	defer raw.Close()
	stop := context.AfterFunc(p.ctx, func() { raw.Close() }) // ends a blocked read or write
	defer stop()
	var c net.Conn = raw
	if p.tls != nil {
		c = tls.Server(raw, p.tls)
	}
	in := bufio.NewReader(c)
	req, err := http.ReadRequest(in)
	if err != nil {
		return
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return
	}
	k := kindOf(req.Method, req.RequestURI)
	i := p.record(Request{
		Kind: k, Method: req.Method, Target: req.RequestURI, Host: req.Host,
		Header: req.Header, Body: string(body),
	})
	p.answer(raw, c, in, i, k, p.next(k, req.RequestURI))
}

// answer plays one answer to its end.
func (p *Player) answer(raw *net.TCPConn, c net.Conn, in io.Reader, i int, k Kind, a answer) {
	if !p.pause(a.DelayMS) || a.End.how == "drop" {
		return
	}
	status := http.StatusOK
	if a.Status != nil {
		status = *a.Status
	}
	if status == 0 {
		raw.SetLinger(0)
		return
	}
	if _, err := io.WriteString(c, p.head(status, k, a)); err != nil {
		return
	}
	if !p.pieces(c, k, a) {
		return
	}
	for _, t := range a.Tail {
		if !p.pause(t.afterMS) || !piece(c, []byte(t.text)) {
			return
		}
	}
	switch a.End.how {
	case "cut": // closed without the last chunk of the body
	case "reset":
		p.sleep(resetPause)
		raw.SetLinger(0)
	case "hang":
		c.SetReadDeadline(time.Now().Add(time.Duration(float64(a.End.hang) * p.speed)))
		if _, err := io.Copy(io.Discard, in); !errors.Is(err, net.ErrClosed) && !isTimeout(err) {
			p.recordPeerClosed(i)
		}
	default:
		if _, err := io.WriteString(c, "0\r\n\r\n"); err != nil {
			return
		}
		if t, ok := c.(*tls.Conn); ok {
			_ = t.CloseWrite() // says to the client that nothing was cut off
		}
	}
}

// head builds the status line and the headers. The body is always chunked and
// the connection always closes, so that where a body ends is the plan's to say.
func (p *Player) head(status int, k Kind, a answer) string {
	h := map[string]string{"Content-Type": "application/json"}
	if k == Follow {
		h = map[string]string{"Content-Type": "text/event-stream", "Cache-Control": "no-cache"}
	}
	for name, v := range a.Headers {
		name = http.CanonicalHeaderKey(name)
		if v == nil {
			delete(h, name)
			continue
		}
		h[name] = strings.ReplaceAll(*v, "{SELF}", p.url)
	}
	h["Transfer-Encoding"] = "chunked"
	h["Connection"] = "close"
	reason := a.Reason
	if reason == "" {
		reason = "X" // clients must not read it
	}
	var b strings.Builder
	fmt.Fprintf(&b, "HTTP/1.1 %d %s\r\n", status, reason)
	for _, name := range slices.Sorted(maps.Keys(h)) {
		fmt.Fprintf(&b, "%s: %s\r\n", name, h[name])
	}
	b.WriteString("\r\n")
	return b.String()
}

// pieces writes the body, each piece as one chunk of the transfer coding and
// one write of the socket.
func (p *Player) pieces(c net.Conn, k Kind, a answer) bool {
	cut, gap := a.Cuts, float64(defaultGap)
	if a.GapMS != nil {
		gap = *a.GapMS
	}
	if k == Follow && p.cuts != nil {
		cut = *p.cuts
		if len(cut.offsets) != 1 {
			gap = 0
		}
	}
	from := 0
	for _, to := range cut.in(a.payload) {
		if !piece(c, a.payload[from:to]) || !p.pause(gap) {
			return false
		}
		from = to
	}
	return piece(c, a.payload[from:])
}

func piece(c net.Conn, b []byte) bool {
	if len(b) == 0 {
		return true
	}
	chunk := fmt.Appendf(nil, "%x\r\n", len(b))
	chunk = append(chunk, b...)
	chunk = append(chunk, '\r', '\n')
	_, err := c.Write(chunk)
	return err == nil
}

// pause waits a planned time at the player's speed; false means the player was
// closed meanwhile.
func (p *Player) pause(ms float64) bool {
	return p.sleep(time.Duration(ms * p.speed * float64(time.Millisecond)))
}

func (p *Player) sleep(d time.Duration) bool {
	if d <= 0 {
		return p.ctx.Err() == nil
	}
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-p.ctx.Done():
		return false
	}
}

func isTimeout(err error) bool {
	var ne net.Error
	return errors.As(err, &ne) && ne.Timeout()
}
