package wire_test

import (
	"bytes"
	"io"
	"net"
	"path/filepath"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/wire"
)

func TestADistanceTakesItsTimeAndLosesNothing(t *testing.T) {
	const oneWay = 20 * time.Millisecond
	s := redisdtest.Start(t, redisd.Options{})
	path := filepath.Join(s.Dir(), "far")
	d, err := wire.Lay(path, func() (net.Conn, error) { return net.Dial("unix", s.Socket()) }, oneWay)
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(&redis.Options{Network: "unix", Addr: path, DisableIdentity: true, Protocol: 2})
	big := bytes.Repeat([]byte("0123456789"), 100_000)
	if err := rdb.Set(t.Context(), "big", big, 0).Err(); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	got, err := rdb.Get(t.Context(), "big").Bytes()
	if took := time.Since(start); err != nil || !bytes.Equal(got, big) || took < 2*oneWay {
		t.Errorf("%v, %d bytes, %v", err, len(got), took)
	}
	// A pipeline pays the way once.
	start = time.Now()
	_, err = rdb.Pipelined(t.Context(), func(p redis.Pipeliner) error {
		for range 100 {
			p.Incr(t.Context(), "n")
		}
		return nil
	})
	if took := time.Since(start); err != nil || took < 2*oneWay || took > 50*2*oneWay {
		t.Errorf("%v, %v for a pipeline", err, took)
	}
	if err := rdb.Close(); err != nil {
		t.Error(err)
	}
	if err := d.Close(); err != nil {
		t.Error(err)
	}
}

func TestAnEndAtOneEndReachesTheOther(t *testing.T) {
	dir := t.TempDir()
	server, err := net.Listen("unix", filepath.Join(dir, "server"))
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	d, err := wire.Lay(filepath.Join(dir, "far"), func() (net.Conn, error) { return net.Dial("unix", server.Addr().String()) }, time.Millisecond)
	if err != nil {
		t.Fatal(err)
	}
	for _, end := range []string{"near", "far", "both"} {
		near, err := net.Dial("unix", filepath.Join(dir, "far"))
		if err != nil {
			t.Fatal(err)
		}
		far, err := server.Accept()
		if err != nil {
			t.Fatal(err)
		}
		other := far
		switch end {
		case "near":
			near.Close()
		case "far":
			far.Close()
			other = near
		case "both":
			d.Close()
		}
		if _, err := other.Read(make([]byte, 1)); err != io.EOF {
			t.Errorf("%s: %v", end, err)
		}
		near.Close()
		far.Close()
	}
	if _, err := net.Dial("unix", filepath.Join(dir, "far")); err == nil {
		t.Error("a closed way takes a connection")
	}
}
