package limiter_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// clusterOf is a cluster's client as far as it can be told to look again.
type clusterOf struct {
	redis.UniversalClient
	looked int
}

func (c *clusterOf) ReloadState(context.Context) { c.looked++ }

// A cluster's client looks again after an error behind which another node may have the slots, and after no other; one of a
// single server has nowhere to look.
func TestRediscover(t *testing.T) {
	t.Parallel()
	for class, want := range map[limiter.Class]int{
		limiter.ClassUnreachable: 1, limiter.ClassNoAnswer: 1, limiter.ClassReadOnly: 1, limiter.ClassCluster: 1, limiter.ClassLoading: 1,
		limiter.ClassOOM: 0, limiter.ClassAuth: 0, limiter.ClassInvalid: 0, limiter.ClassWrongType: 0,
	} {
		rdb := &clusterOf{}
		limiter.Rediscover(rdb, fmt.Errorf("check: %w", &limiter.Error{Class: class}))
		if rdb.looked != want {
			t.Errorf("%s: looked %d times, want %d", class, rdb.looked, want)
		}
	}
	rdb := &clusterOf{}
	limiter.Rediscover(rdb, nil)
	limiter.Rediscover(rdb, errors.New("of no class"))
	limiter.Rediscover(redis.NewClient(&redis.Options{}), &limiter.Error{Class: limiter.ClassUnreachable})
	if rdb.looked != 0 {
		t.Error("looked without a reason")
	}
}

// What goes wrong with certificates comes before anything was read: it was not counted. Whose certificate is refused is a
// matter of rights.
func TestCertificateErrors(t *testing.T) {
	t.Parallel()
	alert := func(text string) error { return &net.OpError{Op: "remote error", Err: errors.New("tls: " + text)} }
	for _, c := range []struct {
		err  error
		want limiter.Class
	}{
		{alert("certificate required"), limiter.ClassAuth},
		{alert("unknown certificate authority"), limiter.ClassAuth},
		{alert("access denied"), limiter.ClassAuth},
		{&tls.CertificateVerificationError{Err: x509.UnknownAuthorityError{}}, limiter.ClassUnreachable},
		{tls.RecordHeaderError{Msg: "first record does not look like a TLS handshake"}, limiter.ClassUnreachable},
	} {
		var e *limiter.Error
		if err := limiter.Classify("gcra", c.err, false); !errors.As(err, &e) || e.Class != c.want || e.Unknown {
			t.Errorf("%v: %v, want %s and not counted", c.err, err, c.want)
		}
	}
}
