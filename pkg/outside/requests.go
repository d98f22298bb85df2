package outside

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// requests makes requests of keys and costs: in a URL's path and query, and in headers, {key} and {cost} stand for them.
type requests struct {
	start   string // of the URL: scheme and host
	path    string
	query   string // with its question mark
	headers []header

	address string // host and port
	secure  bool
	cost    bool // {cost} is in it
}

type header struct{ name, value string }

const (
	keyMark  = "{key}"
	costMark = "{cost}"
)

// parseRequests reads a URL and headers. An error names no value of a header, which may be a secret.
func parseRequests(text string, headers []string) (t requests, err error) {
	t.start = startOf(text)
	t.path, t.secure = text[len(t.start):], strings.HasPrefix(text, "https:")
	if i := strings.IndexByte(t.path, '?'); i >= 0 {
		t.path, t.query = t.path[:i], t.path[i:]
	}
	if t.address, err = addressIn(t.start); err != nil {
		return t, err
	}
	if strings.Contains(text, "#") {
		return t, errors.New("a URL with a #, which no server sees")
	}
	for _, h := range headers {
		read, err := parseHeader(h)
		if err != nil {
			return t, err
		}
		t.headers = append(t.headers, read)
	}
	if !t.has(keyMark) {
		return t, errors.New("neither the URL nor a --header has {key}: the service would take all clients for one")
	}
	t.cost = t.has(costMark)
	if _, err := t.request(context.Background(), "client", 1); err != nil {
		return t, errors.New("not a URL")
	}
	return t, nil
}

// startOf is the scheme and the host of a URL.
func startOf(text string) string {
	host := strings.Index(text, "://") + len("://")
	if i := strings.IndexAny(text[host:], "/?#"); i >= 0 {
		return text[:host+i]
	}
	return text
}

// addressIn is the host and the port of a URL's beginning, which may not hold a user: names are in results.
func addressIn(start string) (string, error) {
	u, err := url.Parse(start)
	switch {
	case strings.Contains(start, "@"):
		return "", errors.New("a URL with a user or a password, which results would show: put it into a --header")
	case err != nil || u.Hostname() == "" || strings.ContainsAny(start, "{}"):
		return "", errors.New("a URL without a host")
	case u.Port() != "":
		return u.Host, nil
	case u.Scheme == "https":
		return net.JoinHostPort(u.Hostname(), "443"), nil
	}
	return net.JoinHostPort(u.Hostname(), "80"), nil
}

// parseHeader reads NAME: VALUE.
func parseHeader(text string) (h header, err error) {
	name, value, ok := strings.Cut(text, ":")
	h = header{http.CanonicalHeaderKey(strings.TrimSpace(name)), strings.TrimSpace(value)}
	if !ok || h.name == "" || strings.IndexFunc(h.name, func(r rune) bool { return !inToken(r) }) >= 0 || !sendable(h.value) {
		return header{}, errors.New("--header: want 'NAME: VALUE'")
	}
	return h, nil
}

// inToken tells whether a header's name can hold the rune.
func inToken(r rune) bool {
	return '0' <= r && r <= '9' || 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || strings.ContainsRune("!#$%&'*+-.^_`|~", r)
}

// sendable tells whether a header can hold the value.
func sendable(value string) bool {
	return strings.IndexFunc(value, func(r rune) bool { return r < ' ' && r != '\t' || r == 0x7f }) < 0
}

// has tells whether the mark is anywhere in it.
func (t requests) has(mark string) bool {
	for _, h := range t.headers {
		if strings.Contains(h.value, mark) {
			return true
		}
	}
	return strings.Contains(t.path+t.query, mark)
}

// request is that of a key and a cost. An error is a key that cannot be in a header, or the URL.
func (t requests) request(ctx context.Context, key string, cost int64) (*http.Request, error) {
	n := strconv.FormatInt(cost, 10)
	fill := func(text, key string) string { return strings.NewReplacer(keyMark, key, costMark, n).Replace(text) }
	at := t.start + fill(t.path, url.PathEscape(key)) + fill(t.query, url.QueryEscape(key))
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, at, nil)
	if err != nil {
		return nil, errors.New("not a URL")
	}
	for _, h := range t.headers {
		value := fill(h.value, key)
		if !sendable(value) {
			return nil, &limiter.FieldError{Field: "key", Problem: fmt.Sprintf("must be what the header %s can hold", h.name)}
		}
		if h.name == "Host" {
			req.Host = value
			continue
		}
		req.Header.Add(h.name, value)
	}
	return req, nil
}

// HostOf is the host of a service, "" if the name is that of another kind.
func HostOf(name string) string {
	u, err := url.Parse(startOf(name))
	if err != nil || u.Scheme != "http" && u.Scheme != "https" {
		return ""
	}
	return u.Hostname()
}
