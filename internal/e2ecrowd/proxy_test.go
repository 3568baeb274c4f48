//go:build unix

package e2ecrowd

import (
	"bufio"
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
)

// A cut says where a connection of the follow ends: in the first frame of that
// name that it carries, so many bytes before its end.
type cut struct {
	frame string
	short int  // 0 lets the whole frame through, and nothing behind it
	reset bool // the connection is reset, and not just closed
}

// progress reports whether the cut lets a cursor through.
func (c cut) progress() bool { return c.frame == "aip.stream.cursor" && c.short == 0 }

// cutter is a TCP proxy in front of a daemon that cuts each connection of the
// follow where its plan says, as long as the plan goes, and leaves everything
// else alone.
type cutter struct {
	ln   net.Listener
	to   string
	plan []cut
	next func(n int) // told of the n-th connection of the follow before it is passed on

	mu    sync.Mutex
	conns map[net.Conn]bool
	wg    sync.WaitGroup
	// What went over the line.
	asked     []string // the cursor that each follow asked for, in order
	delivered []string // the cursors of whole frames that were written to the client, in order
	posts     int
	lost      int
}

func newCutter(t testing.TB, daemonURL string, plan []cut, next func(int)) *cutter {
	t.Helper()
	u, err := url.Parse(daemonURL)
	if err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	c := &cutter{ln: ln, to: u.Host, plan: plan, next: next, conns: map[net.Conn]bool{}}
	c.wg.Go(func() {
		for {
			conn, err := ln.Accept()
			if err != nil {
				return // the listener was closed
			}
			c.wg.Go(func() { c.serve(conn.(*net.TCPConn)) })
		}
	})
	t.Cleanup(func() {
		ln.Close()
		c.mu.Lock()
		for conn := range c.conns {
			conn.Close()
		}
		c.mu.Unlock()
		c.wg.Wait()
	})
	return c
}

func (c *cutter) url() string { return "http://" + c.ln.Addr().String() }

// keep closes a connection when the test ends, or when it is let go.
func (c *cutter) keep(conn net.Conn) (letGo func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.conns[conn] = true
	return func() {
		conn.Close()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.conns, conn)
	}
}

// serve passes the requests of one connection on, one behind the other. Errors
// are one side's leaving, and end the connection.
func (c *cutter) serve(client *net.TCPConn) {
	defer c.keep(client)()
	server, err := net.Dial("tcp", c.to)
	if err != nil {
		return
	}
	defer c.keep(server)()
	fromClient, fromServer := bufio.NewReader(client), bufio.NewReader(server)
	for {
		req, err := http.ReadRequest(fromClient)
		if err != nil {
			return
		}
		kind := kindOf(req)
		n := c.note(kind, req)
		if kind == "follow" {
			c.next(n)
		}
		if err := req.Write(server); err != nil {
			return
		}
		resp, err := http.ReadResponse(fromServer, req)
		if err != nil {
			return
		}
		if kind != "follow" {
			if err := resp.Write(client); err != nil {
				return
			}
			continue
		}
		c.stream(client, resp, n)
		return
	}
}

// note records a request and returns which of the follows it is, from 0.
func (c *cutter) note(kind string, req *http.Request) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch kind {
	case "submit":
		c.posts++
	case "follow":
		c.asked = append(c.asked, req.URL.Query().Get("cursor"))
	}
	return len(c.asked) - 1
}

// stream passes an event stream on, up to the cut that the plan has for it. The
// body is left alone then: closing it would read to its end.
func (c *cutter) stream(client *net.TCPConn, resp *http.Response, n int) {
	fmt.Fprintf(client, "HTTP/1.1 %s\r\nContent-Type: %s\r\nTransfer-Encoding: chunked\r\n\r\n", resp.Status, resp.Header.Get("Content-Type"))
	var all []byte
	sent := 0
	buf := make([]byte, 4096)
	for {
		k, err := resp.Body.Read(buf)
		all = append(all, buf[:k]...)
		end := len(all)
		over := n < len(c.plan) && c.plan[n].at(all, &end)
		if end > sent {
			// Whoever sees the next request must know what this one was answered.
			c.passed(all[:sent], all[:end])
			if _, werr := fmt.Fprintf(client, "%x\r\n%s\r\n", end-sent, all[sent:end]); werr != nil {
				return
			}
			sent = end
		}
		switch {
		case over:
			c.mu.Lock()
			c.lost++
			c.mu.Unlock()
			if c.plan[n].reset {
				client.SetLinger(0)
			}
			return
		case err == io.EOF:
			fmt.Fprint(client, "0\r\n\r\n")
			return
		case err != nil:
			return
		}
	}
}

// at looks for the place of the cut in what has come so far, and moves end
// there.
func (c cut) at(all []byte, end *int) bool {
	from := bytes.Index(all, []byte("event: "+c.frame+"\n"))
	if from < 0 {
		return false
	}
	size := bytes.Index(all[from:], []byte("\n\n")) + 2
	if size < 2 {
		*end = from // the rest of the frame decides how much of it passes
		return false
	}
	*end = from + size - c.short
	return true
}

// passed notes the cursors of the frames that became whole between two states of
// a stream.
func (c *cutter) passed(before, now []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := cursorsOf(before)
	c.delivered = append(c.delivered, cursorsOf(now)[len(old):]...)
}

// cursorsOf are the ids of the whole cursor frames of an event stream.
func cursorsOf(b []byte) []string {
	var out []string
	frames := strings.Split(string(b), "\n\n")
	for _, frame := range frames[:len(frames)-1] {
		if !strings.HasPrefix(frame, "event: aip.stream.cursor\n") {
			continue
		}
		for line := range strings.Lines(frame + "\n") {
			if id, ok := strings.CutPrefix(line, "id: "); ok {
				out = append(out, strings.TrimSpace(id))
			}
		}
	}
	return out
}
