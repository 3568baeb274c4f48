package client

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
)

// maxDiscoveryBytes bounds a page of the catalogue, or a manifest.
const maxDiscoveryBytes = 16 << 20

func path(tail ...string) []string { return append(append([]string{}, root...), tail...) }

// Capabilities reads one page of the catalogue. The error is *aip.RemoteError
// for an answer that is no page: 404 where there is no catalogue, 403 for a
// token without a tenant, 409 for a cursor that went stale.
func (c *Client) Capabilities(ctx context.Context, q aip.CapabilityQuery) (*aip.CapabilityPage, error) {
	v := url.Values{}
	if q.CapabilityID != "" {
		v.Set("capability_id", q.CapabilityID)
	}
	if q.Cursor != "" {
		v.Set("cursor", q.Cursor)
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return discover(ctx, c, request{method: http.MethodGet, route: "/aip/v1/capabilities", path: path("capabilities"), query: v}, aip.DecodeCapabilityPage)
}

// Manifest reads what the daemon says of itself, all of it or what concerns one
// capability.
func (c *Client) Manifest(ctx context.Context, capabilityID string) (*aip.Manifest, error) {
	v := url.Values{}
	if capabilityID != "" {
		v.Set("capability_id", capabilityID)
	}
	return discover(ctx, c, request{method: http.MethodGet, route: "/aip/v1/manifest", path: path("manifest"), query: v}, aip.DecodeManifest)
}

func discover[T any](ctx context.Context, c *Client, r request, decode func(io.Reader) (T, error)) (T, error) {
	var none T
	resp, err := c.readOnce(ctx, r)
	if err != nil {
		return none, err
	}
	body := c.limit(resp.Body, maxDiscoveryBytes, "an answer about capabilities")
	defer body.Close()
	out, err := decode(body)
	if err != nil {
		return none, c.unecho(notAIP(resp, err))
	}
	return out, nil
}

// Readiness is what a daemon says of its own state, and what the answer tells
// beside it.
type Readiness struct {
	Ready bool
	Date  time.Time            // the server's clock; zero when it sent none
	TLS   *tls.ConnectionState // nil over plain HTTP
}

// Readiness asks the readiness route. A daemon that says it is not ready is no
// error; something else that answers in its place is an *aip.RemoteError.
func (c *Client) Readiness(ctx context.Context) (*Readiness, error) {
	resp, err := c.readOnce(ctx, request{method: http.MethodGet, route: "/ready", path: []string{"ready"}})
	var remote *aip.RemoteError
	if errors.As(err, &remote) && remote.Status == http.StatusServiceUnavailable && remote.Form == aip.FormJSON {
		return &Readiness{Date: remote.Date}, nil
	}
	if err != nil {
		return nil, err
	}
	body := c.limit(resp.Body, 1<<20, "an answer about readiness")
	defer body.Close()
	if err := aip.DecodeReady(body); err != nil {
		return nil, c.unecho(notAIP(resp, err))
	}
	return &Readiness{Ready: true, Date: dateOf(resp), TLS: resp.TLS}, nil
}

// Read names what [Client.MayRead] tries.
type Read int

// What may be tried: the list of actions, and that of approvals.
const (
	ReadActions Read = iota
	ReadApprovals
)

// MayRead asks for the first entry of a list and forgets it. A nil error says
// that the token has the scope.
func (c *Client) MayRead(ctx context.Context, what Read) error {
	name, list := "actions", "action_list"
	if what == ReadApprovals {
		name, list = "approvals", "approval_list"
	}
	resp, err := c.readOnce(ctx, request{
		method: http.MethodGet, route: "/aip/v1/" + name, path: path(name), query: url.Values{"limit": {"1"}},
	})
	if err != nil {
		return err
	}
	reply, err := c.reply(resp, aip.ResultDecoding{})
	if err == nil && reply.Other != list {
		err = c.unecho(notAIP(resp, errNotJSON))
	}
	return err
}
