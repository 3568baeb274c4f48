package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/idle"
	"github.com/go-json-experiment/json/jsontext"
)

var root = []string{"aip", "v1"}

func actionPath(id string, tail ...string) []string {
	return append(append(append([]string{}, root...), "actions", id), tail...)
}

// Submit posts one envelope, once, and reads the reply as it comes. It is
// bounded by ctx alone: a streaming submit answers when the action has ended.
// sent is called once, when the request was written in full or answered; it
// may be nil.
//
// The error is *aip.RemoteError for an HTTP answer that is no success, or for
// an error envelope inside a 200; *TransportError when there was no answer;
// anything else means that the reply was cut or is no reply.
func (c *Client) Submit(ctx context.Context, envelope []byte, sent func(), d aip.ResultDecoding) (*aip.Reply, error) {
	reply, err := c.post(ctx, envelope, sent, d)
	if err != nil {
		return nil, err
	}
	if reply.Result == nil && reply.Ack == nil {
		return nil, fmt.Errorf("the reply holds neither a result nor an acknowledgement")
	}
	return reply, nil
}

// post sends one envelope over a connection of its own and reads the answer.
func (c *Client) post(ctx context.Context, envelope []byte, sent func(), d aip.ResultDecoding) (*aip.Reply, error) {
	resp, err := c.roundTrip(ctx, &request{
		method: http.MethodPost, route: "/aip/v1/messages", path: append(append([]string{}, root...), "messages"),
		body: envelope, submit: true, sent: sent,
	})
	if err != nil {
		return nil, err
	}
	return c.reply(resp, d)
}

// Result reads the stored result.
func (c *Client) Result(ctx context.Context, actionID string, d aip.ResultDecoding) (*aip.ActionResult, error) {
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/actions/{action_id}/result", path: actionPath(actionID, "result"),
	})
	if err != nil {
		return nil, err
	}
	reply, err := c.reply(resp, d)
	if err != nil {
		return nil, err
	}
	if reply.Result == nil {
		return nil, errors.New("the answer holds no action_result")
	}
	return reply.Result, nil
}

// reply decodes a 2xx body; an error inside it is a RemoteError all the same.
func (c *Client) reply(resp *http.Response, d aip.ResultDecoding) (*aip.Reply, error) {
	body := c.bounded(resp.Body)
	defer body.Close()
	if ct := mediaType(resp); ct != "" && !strings.HasSuffix(ct, "json") {
		form := aip.FormText
		if strings.Contains(ct, "html") {
			form = aip.FormHTML
		}
		return nil, c.unecho(&aip.RemoteError{Status: resp.StatusCode, Form: form, ContentType: ct, Date: dateOf(resp)})
	}
	reply, err := aip.DecodeReply(body, d)
	if err != nil {
		return nil, bodyError(err)
	}
	c.unechoCode(reply.Error)
	if reply.Result != nil {
		c.unechoCode(reply.Result.Error)
	}
	if reply.Error != nil && reply.Result == nil && reply.Ack == nil {
		form := aip.FormPlain
		if reply.Enveloped {
			form = aip.FormEnvelope
		}
		return nil, &aip.RemoteError{Status: resp.StatusCode, Form: form, ContentType: mediaType(resp), Proto: reply.Error, Retry: reply.Error.RetryAfter(), Date: dateOf(resp)}
	}
	return reply, nil
}

// Status reads the durable view, without chunks and without the result.
func (c *Client) Status(ctx context.Context, actionID string) (*aip.ActionStatus, error) {
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/actions/{action_id}", path: actionPath(actionID),
	})
	if err != nil {
		return nil, err
	}
	body := c.bounded(resp.Body)
	defer body.Close()
	st, err := aip.DecodeStatus(body)
	if err != nil {
		return nil, c.unecho(notAIP(resp, err))
	}
	c.unechoStatus(st)
	return st, nil
}

// Page reads one page of events and chunks.
func (c *Client) Page(ctx context.Context, q aip.EventsQuery, d aip.Decoding) (*aip.EventsPage, error) {
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/actions/{action_id}/events", path: actionPath(q.ActionID, "events"), query: eventsQuery(q, false),
	})
	if err != nil {
		return nil, err
	}
	body := c.bounded(resp.Body)
	defer body.Close()
	page, err := aip.DecodePage(body, d)
	if err != nil {
		return nil, c.unecho(notAIP(resp, err))
	}
	return page, nil
}

// Follow opens the event stream. The body has no size bound and no watch:
// both belong to whoever reads it.
func (c *Client) Follow(ctx context.Context, q aip.EventsQuery) (io.ReadCloser, error) {
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/actions/{action_id}/events?follow", path: actionPath(q.ActionID, "events"), query: eventsQuery(q, true),
	})
	if err != nil {
		return nil, err
	}
	ct := mediaType(resp)
	if resp.StatusCode != http.StatusOK || ct != "text/event-stream" {
		resp.Body.Close()
		form := aip.FormText
		switch {
		case resp.StatusCode == http.StatusNoContent:
			form = aip.FormEmpty
		case strings.Contains(ct, "html"):
			form = aip.FormHTML
		case strings.Contains(ct, "json"):
			form = aip.FormJSON
		}
		return nil, c.unecho(&aip.RemoteError{Status: resp.StatusCode, Form: form, ContentType: ct, NotStream: true, Date: dateOf(resp)})
	}
	return resp.Body, nil
}

func eventsQuery(q aip.EventsQuery, follow bool) url.Values {
	v := url.Values{}
	if q.Cursor != "" {
		v.Set("cursor", q.Cursor)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	if q.IncludeChunks {
		v.Set("include_chunks", "true")
	}
	if len(q.Kinds) > 0 {
		v.Set("kinds", strings.Join(q.Kinds, ","))
	}
	if follow {
		v.Set("follow", "true")
	}
	return v
}

// Cancel asks for a cancellation. A nil error acknowledges the request and is
// no outcome: a finished action is acknowledged just the same.
func (c *Client) Cancel(ctx context.Context, actionID, cancelReason string) error {
	body := []byte("{}")
	if cancelReason != "" {
		q, err := jsontext.AppendQuote([]byte(`{"reason":`), cancelReason)
		if err != nil {
			return fmt.Errorf("the reason is not valid UTF-8")
		}
		body = append(q, '}')
	}
	resp, err := c.readOnce(ctx, request{
		method: http.MethodPost, route: "/aip/v1/actions/{action_id}/cancel", path: actionPath(actionID, "cancel"), body: body,
	})
	if err != nil {
		return err
	}
	_, err = c.reply(resp, aip.ResultDecoding{})
	return err
}

// Approval reads the record of one approval, with what is known of its action.
// payload asks for the action's input too, which only some scopes reveal.
func (c *Client) Approval(ctx context.Context, approvalID string, payload bool) (*aip.ApprovalView, error) {
	q := url.Values{"include_action_status": {"true"}}
	if payload {
		q.Set("include_evidence_payload", "true")
	}
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/approvals/{approval_id}", path: append(append([]string{}, root...), "approvals", approvalID), query: q,
	})
	if err != nil {
		return nil, err
	}
	body := c.bounded(resp.Body)
	defer body.Close()
	v, err := aip.DecodeApproval(body)
	if err != nil {
		return nil, c.unecho(notAIP(resp, err))
	}
	return v, nil
}

// Approvals reads one page of the list of approvals: of one status, or of all
// when it is empty. A cursor is returned unless it is the last page.
func (c *Client) Approvals(ctx context.Context, status, cursor string) ([]*aip.ApprovalView, string, error) {
	q := url.Values{"limit": {"1000"}}
	if status != "" {
		q.Set("status", status)
	}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/approvals", path: append(append([]string{}, root...), "approvals"), query: q,
	})
	if err != nil {
		return nil, "", err
	}
	body := c.bounded(resp.Body)
	defer body.Close()
	views, next, err := aip.DecodeApprovals(body)
	if err != nil {
		return nil, "", c.unecho(notAIP(resp, err))
	}
	return views, next, nil
}

// Decide posts one decision, once, with the care of a submit: granting runs the
// action inside this exchange, so it is bounded by ctx alone. It returns the
// events that the daemon answered with; errors are those of [Client.Submit].
func (c *Client) Decide(ctx context.Context, envelope []byte) ([]aip.Event, error) {
	reply, err := c.post(ctx, envelope, nil, aip.ResultDecoding{})
	if err != nil {
		return nil, err
	}
	if !reply.EventStream {
		return nil, fmt.Errorf("the answer holds no events of a decision")
	}
	return reply.Events, nil
}

// bounded puts the idle watch and the size bound on a body.
func (c *Client) bounded(body io.ReadCloser) io.ReadCloser {
	return c.limit(body, c.o.MaxResultBytes, "--max-result-bytes")
}

// limit bounds a body by a number of bytes, 0 for none; what names the bound in
// the error of a body that passes it.
func (c *Client) limit(body io.ReadCloser, bytes int64, what string) io.ReadCloser {
	watched := &received{idle.Watch(body, c.o.IdleTimeout)}
	if bytes <= 0 {
		return watched
	}
	return &limited{ReadCloser: watched, left: bytes, limit: bytes, what: what}
}

// received marks what goes wrong while a body comes, so that it is told from
// what goes wrong while it is understood.
type received struct{ io.ReadCloser }

type receiveError struct{ err error }

func (e *receiveError) Error() string { return reason(e.err) }
func (e *receiveError) Unwrap() error { return e.err }

func (r *received) Read(p []byte) (int, error) {
	n, err := r.ReadCloser.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = &receiveError{err}
	}
	return n, err
}

type limited struct {
	io.ReadCloser
	left, limit int64
	what        string
}

func (l *limited) Read(p []byte) (int, error) {
	if l.left < 0 {
		return 0, &TooLargeError{Limit: l.limit, Flag: l.what}
	}
	// One byte more than the bound tells a body that fits from one that does not.
	if int64(len(p)) > l.left+1 {
		p = p[:l.left+1]
	}
	n, err := l.ReadCloser.Read(p)
	l.left -= int64(n)
	if l.left < 0 {
		return max(n-1, 0), &TooLargeError{Limit: l.limit, Flag: l.what}
	}
	return n, err
}

// bodyError keeps the causes that callers act on, and none of the body.
func bodyError(err error) error {
	var large *TooLargeError
	if errors.As(err, &large) {
		return large
	}
	var cut *receiveError
	if errors.As(err, &cut) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return &TransportError{What: "the answer was cut: " + cut.Error(), Err: err}
	}
	switch {
	case errors.Is(err, io.ErrUnexpectedEOF):
		return &TransportError{What: "the answer was cut", Err: err}
	case errors.Is(err, io.EOF):
		return &TransportError{What: "the answer is empty", Err: err}
	}
	var syn *jsontext.SyntacticError
	if errors.As(err, &syn) {
		return &TransportError{What: "the answer is not the JSON that was expected", Err: errNotJSON}
	}
	return err
}

var errNotJSON = errors.New("not the expected JSON")

// notAIP names what came instead of an AIP body.
func notAIP(resp *http.Response, err error) error {
	be := bodyError(err)
	var te *TransportError
	var large *TooLargeError
	if errors.As(be, &large) || errors.As(be, &te) && !errors.Is(te, errNotJSON) {
		return be
	}
	ct := mediaType(resp)
	form := aip.FormJSON
	switch {
	case strings.Contains(ct, "html"):
		form = aip.FormHTML
	case !strings.HasSuffix(ct, "json"):
		form = aip.FormText
	}
	return &aip.RemoteError{Status: resp.StatusCode, Form: form, ContentType: ct, Date: dateOf(resp)}
}
