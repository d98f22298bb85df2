package outside

import (
	"errors"
	"net"
	"net/url"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// addressOf is where a client leads, as a URL that holds its password, and how long the client waits for an answer.
func addressOf(rdb redis.UniversalClient) (address, password string, timeout time.Duration, err error) {
	c, ok := rdb.(*redis.Client)
	if !ok {
		return "", "", 0, errors.New("a worker is told of one server only: no cluster, no autopipeline")
	}
	o := c.Options()
	if o.TLSConfig != nil {
		return "", "", 0, errors.New("a worker is told nothing of TLS")
	}
	u := url.URL{Scheme: "redis", Host: o.Addr, Path: "/" + strconv.Itoa(o.DB)}
	if o.Network == "unix" {
		u = url.URL{Scheme: "unix", Path: o.Addr}
		if o.DB != 0 {
			u.RawQuery = "db=" + strconv.Itoa(o.DB)
		}
	} else if _, _, err := net.SplitHostPort(o.Addr); err != nil {
		return "", "", 0, errors.New("a worker is told of one server only: no sentinel")
	}
	switch {
	case o.Username != "":
		u.User = url.UserPassword(o.Username, o.Password)
	case o.Password != "":
		u.User = url.UserPassword("", o.Password)
	}
	return u.String(), o.Password, max(0, o.ReadTimeout), nil
}
