package faults

import (
	"compress/gzip"
	"fmt"
	"io"
	"net/http"
	"time"
)

// HTML is the page of something between client and daemon.
func HTML(status int) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "<!doctype html><title>Sign in</title><p>[DONE] completed accepted</p>")
	})
}

// Redirect sends everybody to another place.
func Redirect() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Location", "https://sign-in.example/start")
		w.WriteHeader(http.StatusFound)
	})
}

// Unavailable answers 503 without an AIP body, and with a Retry-After unless
// that is 0.
func Unavailable(retryAfter time.Duration) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if retryAfter > 0 {
			w.Header().Set("Retry-After", fmt.Sprint(int(retryAfter.Seconds())))
		}
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "upstream connect error")
	})
}

// Gzip compresses what a daemon says, though nobody asked for it.
func Gzip(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Encoding", "gzip")
		z := gzip.NewWriter(w)
		defer z.Close()
		next.ServeHTTP(&zipped{ResponseWriter: w, z: z}, r)
	})
}

type zipped struct {
	http.ResponseWriter
	z *gzip.Writer
}

func (z *zipped) Write(p []byte) (int, error) { return z.z.Write(p) }

// Flush implements http.Flusher.
func (z *zipped) Flush() { _ = z.z.Flush() }

// ProtocolError answers with an error envelope of the native surface.
func ProtocolError(status int, category, code string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		fmt.Fprintf(w, `{"aip_version":"1.0","message_type":"aip.core.v1.error","message_id":"msg_gateway","sent_at":"2030-01-01T00:00:00Z","body":{"error":{"error":{"code":%q,"message":"refused","category":%q,"retryable":false}}}}`, code, category)
	})
}

// RefuseCursor refuses the cursor of a follow or a page, each in its own way.
func RefuseCursor(code string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if RouteOf(r) != Follow {
			ProtocolError(http.StatusBadRequest, "permanent", code).ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
		fmt.Fprintf(w, "event: aip.error\ndata: {\"error\":{\"code\":%q,\"message\":\"refused\",\"category\":\"permanent\",\"retryable\":false}}\n\n", code)
	})
}

// EmptyStream answers a follow with a stream that ends at once.
func EmptyStream() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/event-stream")
		w.WriteHeader(http.StatusOK)
	})
}
