package cmd

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aipctl/aipctl/internal/aip"
	"github.com/aipctl/aipctl/internal/client"
	"github.com/aipctl/aipctl/internal/contract"
	"github.com/aipctl/aipctl/internal/fault"
	"github.com/aipctl/aipctl/internal/state"
)

// When a certificate that will expire is worth a word.
const certificateWarning = 21 * 24 * time.Hour

// How far the clock of this machine may be from the daemon's, by the protocol's
// window for the time in an envelope, and when it is close to it. The header
// that tells has whole seconds.
const (
	mostAhead   = 30 * time.Second
	mostBehind  = 300 * time.Second
	closeAhead  = 15 * time.Second
	closeBehind = 150 * time.Second
)

// network asks the daemon, by reading alone.
func (x *doctor) network(ctx context.Context) {
	before := x.r.Now()
	bounded, cancel := context.WithTimeout(ctx, patience)
	ready, err := x.client.Readiness(bounded)
	cancel()
	after := x.r.Now()
	var transport *client.TransportError
	var remote *aip.RemoteError
	switch {
	case errors.As(err, &transport):
		x.unreached(transport)
		return
	case errors.As(err, &remote):
		x.secured(nil)
		x.fail(inReady, notReady(remote), "is the URL the daemon's own, with its path prefix?")
		x.clock(remote.Date, before, after)
	case err != nil:
		x.fail(inReady, fault.New(fault.Unavailable, "doctor.ready", "%s", err), "")
	default:
		x.secured(ready.TLS)
		if ready.Ready {
			x.ok(inReady, fmt.Sprintf("the daemon answered in %d ms", after.Sub(before).Milliseconds()))
		} else {
			x.fail(inReady, fault.New(fault.Unavailable, "doctor.not_ready", "the daemon says that it is not ready"), "try again; whoever runs the daemon sees why at its /ready")
		}
		x.clock(ready.Date, before, after)
	}
	if x.access(ctx) {
		x.approvals(ctx)
		x.catalogue(ctx)
	}
}

// unreached says why there was no answer, and whether it was TLS.
func (x *doctor) unreached(e *client.TransportError) {
	rest := []string{inClock, inAccess, inApprovals, inCatalogue}
	where, code := inReady, "doctor.unreached"
	fix := "check the host, the port and the way there; `aipctl dev serve` starts a daemon for development"
	var verify *tls.CertificateVerificationError
	detail := e.What
	if errors.As(e.Err, &verify) {
		where, code, fix = inTLS, "doctor.certificate", "name the authority that signed it with --ca-file FILE, or correct the URL"
		if len(verify.UnverifiedCertificates) > 0 {
			c := verify.UnverifiedCertificates[0]
			detail += "; " + certificate(c)
			var invalid x509.CertificateInvalidError
			if errors.As(verify, &invalid) && invalid.Reason == x509.Expired {
				fix = "whoever runs the daemon has to renew it; if its dates are right, " + setClock()
			}
		}
		rest = append([]string{inReady}, rest...)
	} else if strings.Contains(detail, "TLS") {
		where, fix = inTLS, "does the daemon speak https there? correct the URL"
		rest = append([]string{inReady}, rest...)
	}
	x.fail(where, fault.New(fault.Unavailable, code, "%s", detail), fix)
	x.skip(rest...)
}

func notReady(e *aip.RemoteError) error {
	class := fault.Unavailable
	if e.Status == http.StatusUnauthorized || e.Status == http.StatusForbidden {
		class = fault.Auth
	}
	return fault.New(class, "doctor.foreign", "no daemon answered for its readiness: %s", e.Error())
}

// secured says what protects the connection; nothing is said of plain HTTP.
func (x *doctor) secured(s *tls.ConnectionState) {
	if s == nil || len(s.PeerCertificates) == 0 {
		return
	}
	c := s.PeerCertificates[0]
	detail := tls.VersionName(s.Version) + "; " + certificate(c)
	left := c.NotAfter.Sub(x.r.Now())
	if left < certificateWarning {
		x.warn(inTLS, "doctor.certificate_expires", fmt.Sprintf("%s, which is in %d days", detail, int(left.Hours()/24)), "whoever runs the daemon has to renew it")
		return
	}
	x.ok(inTLS, detail)
}

// certificate says whose a certificate is, who signed it and until when it
// holds.
func certificate(c *x509.Certificate) string {
	name := c.Subject.CommonName
	if name == "" && len(c.DNSNames) > 0 {
		name = c.DNSNames[0]
	}
	issuer := c.Issuer.CommonName
	if issuer == "" && len(c.Issuer.Organization) > 0 {
		issuer = c.Issuer.Organization[0]
	}
	return fmt.Sprintf("certificate of %s, signed by %s, valid from %s until %s", orNobody(name), orNobody(issuer),
		c.NotBefore.UTC().Format(time.DateOnly), c.NotAfter.UTC().Format(time.DateOnly))
}

func orNobody(name string) string {
	if name == "" {
		return "nobody by name"
	}
	return name
}

// clock compares this machine's clock with the daemon's, which wants the time
// in an envelope to be close to its own.
func (x *doctor) clock(date, before, after time.Time) {
	if date.IsZero() {
		x.warn(inClock, "doctor.no_date", "the daemon does not tell its time, so the clocks cannot be compared", "")
		return
	}
	// The header was written between the two, and lost up to a second.
	ahead := max(before.Sub(date.Add(time.Second)), 0)
	behind := max(date.Sub(after), 0)
	describe := func() string {
		switch {
		case ahead > 0:
			return fmt.Sprintf("this machine is %s ahead of the daemon", ahead.Round(time.Second))
		case behind > 0:
			return fmt.Sprintf("this machine is %s behind the daemon", behind.Round(time.Second))
		}
		return "the same as the daemon's, to the second"
	}
	switch {
	case ahead > mostAhead || behind > mostBehind:
		x.fail(inClock, fault.New(fault.Rejected, "doctor.clock", "%s, which refuses what is more than 30 s ahead or 5 min behind", describe()), setClock())
	case ahead > closeAhead || behind > closeBehind:
		x.warn(inClock, "doctor.clock", describe()+", and that is close to what it refuses", setClock())
	default:
		x.ok(inClock, describe())
	}
}

// access tries what every command but a call needs: reading actions. It says
// whether there is any use in asking on.
func (x *doctor) access(ctx context.Context) bool {
	err := x.mayRead(ctx, client.ReadActions)
	var remote *aip.RemoteError
	switch {
	case err == nil:
		x.ok(inAccess, "actions may be read; whether they may be submitted is not tried")
		return true
	case !errors.As(err, &remote):
		x.fail(inAccess, fault.New(fault.Unavailable, "doctor.access", "the list of actions cannot be read: %s", err), "")
		return true
	case remote.Code() == "auth.not_authorized":
		x.fail(inAccess, fault.New(fault.Auth, "doctor.scope", "the token lacks the scope action:read (%s)", remote.Error()), "ask whoever runs the daemon for it: without it no action can be followed or settled")
		return true
	case remote.Status == http.StatusUnauthorized && x.token.IsZero():
		x.fail(inAccess, fault.New(fault.Auth, "doctor.token_missing", "the daemon wants a token (%s)", remote.Error()), "write it to an owner-only file (chmod 600), and name that with --token-file FILE")
	case remote.Status == http.StatusUnauthorized || remote.Status == http.StatusForbidden:
		x.fail(inAccess, fault.New(fault.Auth, "doctor.token_refused", "the daemon refuses the token (%s)", remote.Error()), "is it this daemon's, and still valid? name another with --token-file FILE")
	default:
		x.fail(inAccess, fault.New(fault.Unavailable, "doctor.access", "the list of actions cannot be read: %s", remote.Error()), "is the URL the daemon's own, with its path prefix?")
		return true
	}
	x.skip(inApprovals, inCatalogue)
	return false
}

func (x *doctor) mayRead(ctx context.Context, what client.Read) error {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	return x.client.MayRead(bounded, what)
}

func (x *doctor) approvals(ctx context.Context) {
	err := x.mayRead(ctx, client.ReadApprovals)
	if err == nil {
		x.ok(inApprovals, "they may be read")
		return
	}
	x.warn(inApprovals, "doctor.scope", "they cannot be read: "+err.Error(), "only the approval commands need it; ask whoever runs the daemon for the scope approval:read")
}

// catalogue asks for the first capability alone.
func (x *doctor) catalogue(ctx context.Context) {
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	l, err := contract.Peek(bounded, x.client)
	switch {
	case err == nil && l.Missed == nil:
		x.ok(inCatalogue, "it answers, at revision "+orNobody(l.Revision))
	case err == nil:
		x.warn(inCatalogue, l.Missed.Code, fmt.Sprintf("only the manifest answers, with %d capabilities: %s", len(l.Capabilities), l.Missed.Message), l.Missed.Hint)
	default:
		f := fault.As(err)
		x.warn(inCatalogue, f.Code, f.Message+"; calls work without", f.Hint)
	}
}

// state looks at the state file without writing to it.
func (x *doctor) state(ctx context.Context) {
	file, _, err := x.r.journal()
	if err != nil {
		x.fail(inState, err, "")
		return
	}
	if file == nil {
		x.warn(inState, "state.off", "it is off, so nothing can be submitted", "leave --state off out of calls")
		return
	}
	bounded, cancel := context.WithTimeout(ctx, patience)
	defer cancel()
	p, err := file.Look(bounded)
	if err != nil {
		x.fail(inState, err, "")
		return
	}
	if !p.Exists {
		x.ok(inState, file.Path()+" is not there yet; the first call makes it")
		return
	}
	view, report, err := file.Load(bounded)
	if err != nil {
		x.fail(inState, err, "")
		return
	}
	open := 0
	for _, a := range view.Actions() {
		if !settled(a) {
			open++
		}
	}
	detail := fmt.Sprintf("%s knows %s, %d of them not settled", file.Path(), amount(len(view.Actions()), "action"), open)
	switch {
	case len(report.Damaged) > 0:
		x.fail(inState, fault.New(fault.State, "state.damaged", "%s: %s", detail, listedAll(report.Warnings())), "`aipctl state check` shows what is damaged; `aipctl state merge` takes what is whole into another file")
	case report.Newer > 0:
		x.warn(inState, "state.newer_version", detail+": "+listedAll(report.Warnings()), "use the newer aipctl with it")
	case p.Mode&0o077 != 0:
		x.warn(inState, "state.too_open", fmt.Sprintf("%s; its mode %04o lets other users at it", detail, p.Mode), "`chmod 600 "+p.Path+"`")
	case p.FolderMode&0o022 != 0:
		x.warn(inState, "state.too_open", fmt.Sprintf("%s; the mode %04o of its folder lets other users replace it", detail, p.FolderMode), "`chmod go-w "+folderOf(p)+"`")
	default:
		x.ok(inState, detail)
	}
}

func folderOf(p state.Place) string {
	if i := strings.LastIndexAny(p.Path, `/\`); i > 0 {
		return p.Path[:i]
	}
	return "."
}

func amount(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// listedAll is a list in one clause.
func listedAll(words []string) string { return strings.Join(words, ", ") }
