package target_test

import (
	"errors"
	"fmt"
	"net/url"
	"strings"
	"testing"

	"github.com/rlctl/rlctl/pkg/target"
)

func TestParseURL(t *testing.T) {
	for s, want := range map[string]target.Conn{
		"redis://":                              {},
		"redis://h":                             {Host: "h"},
		"redis://h:1234":                        {Host: "h", Port: 1234},
		"redis://h:1234/":                       {Host: "h", Port: 1234},
		"redis://h/2":                           {Host: "h", DB: 2},
		"redis://h?db=2":                        {Host: "h", DB: 2},
		"redis://[::1]:7/3":                     {Host: "::1", Port: 7, DB: 3},
		"REDIS://h":                             {Host: "h"},
		"rediss://u:p@h:1/0":                    {Host: "h", Port: 1, User: "u", Password: "p", TLS: true},
		"redis://:p@h":                          {Host: "h", Password: "p"},
		"redis://p@h":                           {Host: "h", Password: "p"},
		"redis://u:a%2Fb%3Fc%23d%40e%3Af%25@h":  {Host: "h", User: "u", Password: "a/b?c#d@e:f%"},
		"unix:///run/redis.sock":                {Socket: "/run/redis.sock"},
		"unix://:p@/run/redis.sock?db=3":        {Socket: "/run/redis.sock", Password: "p", DB: 3},
		"unix://u:p@/run/a%20folder/redis.sock": {Socket: "/run/a folder/redis.sock", User: "u", Password: "p"},
	} {
		if c, err := target.ParseURL(s); err != nil || c != want {
			t.Errorf("%s: %#v %v, want %#v", s, fields(c), err, fields(want))
		}
	}
}

func TestBadURL(t *testing.T) {
	for _, s := range []string{
		"", "h", "h:6379", "127.0.0.1:6379", "http://h", "redis:h", "redis:/h", "//h", "redis://h:port", "redis://h:0", "redis://h:65536",
		"redis://h:-1", "redis://h/x", "redis://h/-1", "redis://h/1/2", "redis://h/1?db=1", "redis://h?db=x", "redis://h?db=1&db=2",
		"redis://h?timeout=1s", "redis://h#1", "redis://h#", "unix://run/redis.sock", "unix://", "unix:///", "unix://h/run/redis.sock",
		"unix:///run/redis.sock?db=-1", "redis://u:@h", "redis://h%zz", "redis://u:p/w@h", "redis://u:p?w@h", "redis://u:p#w@h",
		"redis://h/99999999999999999999", "redis://h\x00", "redis://[::1", "unix:///tmp/\x00",
		"unix:///tmp/%00", "redis://a b", "redis://h?db=%zz", "redis://h?;",
	} {
		c, err := target.ParseURL(s)
		var bad *target.ConnError
		if !errors.As(err, &bad) || bad.Flag != "--url" || bad.Problem == "" || c != (target.Conn{}) {
			t.Errorf("%q: %v, %#v, want a problem of --url and no connection", s, err, fields(c))
		}
	}
}

// fields are those of a Conn, which does not print them.
func fields(c target.Conn) any {
	type open target.Conn
	return open(c)
}

const secret = "hunter2"

// FuzzParseURL puts a secret, as it is and encoded, into the password of any URL: no error and no way of printing the
// connection shows it, and what was accepted is valid, comes back from the URL it describes, and has a port.
func FuzzParseURL(f *testing.F) {
	f.Add("redis", "u", "p", "h:6379", "/0")
	f.Add("unix", "", "/p", "", "/run/redis.sock?db=1")
	f.Add("rediss", "u:", "p?#", "[::1]:1", "?db=1")
	f.Add("redis", "", "@", "", "")
	f.Fuzz(func(t *testing.T, scheme, user, password, host, rest string) {
		if strings.Contains(scheme+user+host+rest, secret) {
			return
		}
		for _, pw := range []string{secret + password, password + secret, password + secret + password} {
			for _, written := range []string{pw, url.QueryEscape(pw), url.UserPassword("", pw).String()[1:]} {
				for _, s := range []string{user + ":" + written, written} {
					parseSecret(t, scheme+"://"+s+"@"+host+rest)
				}
			}
		}
	})
}

func parseSecret(t *testing.T, s string) {
	c, err := target.ParseURL(s)
	if err != nil {
		if strings.Contains(err.Error(), secret) {
			t.Fatalf("%q: the error %q shows the password", s, err)
		}
		return
	}
	if err := c.Validate(); err != nil {
		t.Fatalf("%q was accepted and is not valid: %v", s, err)
	}
	for _, verb := range []string{"%v", "%+v", "%#v", "%s", "%q", "%x", "%d"} {
		if printed := fmt.Sprintf(verb, c); strings.Contains(printed, secret) {
			t.Fatalf("%q: %s prints %q", s, verb, printed)
		}
	}
}
