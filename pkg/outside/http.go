package outside

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// HTTP is a limiter that is a service: each request is a GET of a URL that names the client. 2xx is allowed, 429 is
// denied, and anything else is an error after which the request may have been counted. docs/http.md is the contract.
//
// A request goes out once, whatever becomes of it: redirects are not followed, and the retry with which net/http
// answers a kept connection that died is switched off, since it could charge twice. A caller keeps its connection, on
// which HTTP/1.1 is spoken, so that as many requests are under way as there are callers. No proxy is asked.
//
// A peek takes no event: it is not sent, since a service need not know what one is. It opens a connection instead, so
// that a service that is not there is known of before anything is asked.
type HTTP struct {
	name      string
	to        requests
	patience  time.Duration // for the whole of a request; 0: as long as its context
	transport *http.Transport
}

// maxBody bounds what is read of an answer's body, in bytes, so that its connection can be kept.
const maxBody = 64 << 10

// openHTTP makes limiters of a URL.
func openHTTP(name, _ string, t Terms) (Kind, error) {
	to, err := parseRequests(name, t.Headers)
	if err != nil {
		return Kind{}, err
	}
	return Kind{Unit: !to.cost, Service: true, New: func(
		rdb redis.UniversalClient, l limiter.Limit, _ ...limiter.Option,
	) (limiter.Limiter, error) {
		if err := l.ValidateBucket(); err != nil {
			return nil, limiter.Classify(name, err, false)
		}
		patience, err := patienceOf(rdb)
		if err != nil {
			return nil, &limiter.Error{Limiter: name, Class: limiter.ClassInvalid, Err: err}
		}
		return newHTTP(name, to, patience), nil
	}}, nil
}

func newHTTP(name string, to requests, patience time.Duration) *HTTP {
	h := &HTTP{name: name, to: to, patience: patience}
	h.transport = &http.Transport{
		DialContext: h.dial, DialTLSContext: h.dial, DisableCompression: true,
		MaxIdleConnsPerHost: 1 << 20, MaxResponseHeaderBytes: maxBody,
	}
	return h
}

// patienceOf is how long the callers of a client wait; 0 without one.
func patienceOf(rdb redis.UniversalClient) (time.Duration, error) {
	switch c := rdb.(type) {
	case nil:
		return 0, nil
	case *redis.Client:
		return max(0, c.Options().ReadTimeout), nil
	case *redis.ClusterClient:
		return max(0, c.Options().ReadTimeout), nil
	}
	return 0, fmt.Errorf("a service is asked without Redis: there is nothing to pipeline")
}

// dial opens a connection, for https with its handshake done.
func (h *HTTP) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var d net.Dialer
	conn, err := d.DialContext(ctx, network, address)
	if err != nil || !h.to.secure {
		return conn, err
	}
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	secured := tls.Client(conn, &tls.Config{ServerName: host})
	if err := secured.HandshakeContext(ctx); err != nil {
		conn.Close()
		return nil, err
	}
	return secured, nil
}

// Check asks the service. A cost above 1 is refused if neither the URL nor a header tells the service of it. Errors are
// of these classes: unreachable (nothing was sent); no-answer, and http-CODE of an answer that is neither 2xx nor 429,
// after both of which the request may have been counted.
func (h *HTTP) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	if err := h.bounds(key, cost); err != nil {
		return limiter.Decision{}, limiter.Classify(h.name, err, false)
	}
	if h.patience > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.patience)
		defer cancel()
	}
	if cost == 0 {
		return h.peek(ctx)
	}
	return h.ask(ctx, key, cost)
}

func (h *HTTP) bounds(key string, cost int64) error {
	if cost > 1 && !h.to.cost {
		return &limiter.FieldError{Field: "cost", Problem: "must be 1, since the URL has no {cost}"}
	}
	return limiter.CheckRequest(key, cost, "")
}

// peek tells whether the service can be reached, and nothing of the key.
func (h *HTTP) peek(ctx context.Context) (limiter.Decision, error) {
	conn, err := h.dial(ctx, "tcp", h.to.address)
	if err != nil {
		return limiter.Decision{}, &limiter.Error{Limiter: h.name, Class: limiter.ClassUnreachable, Err: err}
	}
	conn.Close()
	return limiter.Decision{Allowed: true, Remaining: limiter.Untold}, nil
}

// ask sends the request, once.
func (h *HTTP) ask(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	var sent atomic.Bool
	ctx = httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(httptrace.GotConnInfo) { sent.Store(true) }})
	req, err := h.to.request(ctx, key, cost)
	if err != nil {
		return limiter.Decision{}, limiter.Classify(h.name, err, false)
	}
	// net/http sends a GET again when a kept connection turns out to be dead, unless it has a body that cannot be read
	// twice. This one is empty, which it notices in time to send none.
	req.Body = io.NopCloser(strings.NewReader(""))
	resp, err := h.transport.RoundTrip(req)
	switch {
	case err != nil && sent.Load():
		return limiter.Decision{}, &limiter.Error{Limiter: h.name, Class: limiter.ClassNoAnswer, Unknown: true, Err: err}
	case err != nil:
		return limiter.Decision{}, &limiter.Error{Limiter: h.name, Class: limiter.ClassUnreachable, Err: err}
	}
	defer resp.Body.Close() // which gives up the connection if the body goes on
	_, _ = io.CopyN(io.Discard, resp.Body, maxBody)
	return h.decision(resp)
}

// decision is what an answer says. It bears no time: the service's clock is told in whole seconds at best.
func (h *HTTP) decision(resp *http.Response) (limiter.Decision, error) {
	allowed := resp.StatusCode/100 == 2
	if !allowed && resp.StatusCode != http.StatusTooManyRequests {
		class := limiter.Class(fmt.Sprintf("http-%d", resp.StatusCode))
		return limiter.Decision{}, &limiter.Error{Limiter: h.name, Class: class, Unknown: true,
			Err: fmt.Errorf("it answered %d", resp.StatusCode)}
	}
	said := readHeaders(resp.Header, time.Now())
	d := limiter.Decision{Allowed: allowed, Remaining: said.remaining, ResetAfter: said.reset}
	if !allowed {
		d.RetryAfter = said.retry
	}
	return d, nil
}

// Close gives up the connections.
func (h *HTTP) Close() error {
	h.transport.CloseIdleConnections()
	return nil
}
