package target_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/redisd/redisdtest"
	"github.com/rlctl/rlctl/pkg/target"
)

// Whatever a client left must be gone when all is quiet: a lock or a sequence that stays is found by the next one.
// (ECC#1693)
func TestFieldNothingStaysAfterQuiet(t *testing.T) {
	field(t, every("local-bucket"), func(c *caller) {
		c.fresh(limiter.Limit{Events: 7, Window: time.Minute})
		for range 20 { // admitted, then denied
			c.take(1)
		}
		if c.held() == "" {
			c.Fatal("nothing was kept, so that nothing can stay")
		}
		c.pass(2*c.limit.Window + time.Millisecond) // no TTL is longer
		if left := c.held(); left != "" {
			c.Errorf("left behind: %s", left)
		}
	})
}

// trouble is something that a server is in, how to bring it there, and the class of what it then answers.
type trouble struct {
	name  string
	class limiter.Class
	begin [][]any // commands
	conn  func(*target.Conn)
}

var troubles = []trouble{
	{"out of memory", limiter.ClassOOM, [][]any{{"CONFIG", "SET", "maxmemory", "1"}}, nil},
	{"a replica", limiter.ClassReadOnly, [][]any{{"REPLICAOF", "127.0.0.1", "1"}}, nil},
	{"a replica that lost its master", limiter.ClassReadOnly,
		[][]any{{"CONFIG", "SET", "replica-serve-stale-data", "no"}, {"REPLICAOF", "127.0.0.1", "1"}}, nil},
	{"too few replicas", limiter.ClassReadOnly, [][]any{{"CONFIG", "SET", "min-replicas-to-write", "1"}}, nil},
	{"a password", limiter.ClassAuth, [][]any{{"CONFIG", "SET", "requirepass", "secret"}}, nil},
	{"the wrong password", limiter.ClassAuth, [][]any{{"CONFIG", "SET", "requirepass", "secret"}},
		func(c *target.Conn) { c.Password = "guess" }},
	{"no rights", limiter.ClassAuth, [][]any{{"ACL", "SETUSER", "weak", "on", ">pw", "~*", "-@all"}},
		func(c *target.Conn) { c.User, c.Password = "weak", "pw" }},
}

// An error of Redis is an error of its own class, never a denial, and none of these was counted.
func TestFieldTroubleIsNoDenial(t *testing.T) {
	t.Parallel()
	for _, trouble := range troubles {
		t.Run(trouble.name, func(t *testing.T) {
			s := redisdtest.Start(t, redisd.Options{})
			conn := target.Conn{Socket: s.Socket()}
			run(t, conn, trouble.begin)
			if trouble.conn != nil {
				trouble.conn(&conn)
			}
			wantClass(t, conn, trouble.class)
		})
	}
}

// TestFieldBusyIsNoDenial has a script of somebody else's run on.
func TestFieldBusyIsNoDenial(t *testing.T) {
	t.Parallel()
	s := redisdtest.Start(t, redisd.Options{Args: []string{"--busy-reply-threshold", "1"}})
	conn := target.Conn{Socket: s.Socket(), Timeout: time.Minute}
	other, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	ended := make(chan error)
	go func() { ended <- other.Do(context.Background(), "EVAL", "while true do end", "0").Err() }()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for !redis.HasErrorPrefix(rdb.Ping(t.Context()).Err(), "BUSY") {
	}
	wantClass(t, conn, limiter.ClassBusy)
	if err := rdb.ScriptKill(t.Context()).Err(); err != nil {
		t.Error(err)
	}
	<-ended
}

func run(t *testing.T, conn target.Conn, commands [][]any) {
	t.Helper()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for _, words := range commands {
		if err := rdb.Do(t.Context(), words...).Err(); err != nil {
			t.Fatalf("%v: %v", words, err)
		}
	}
}

// wantClass asks every limiter that asks Redis.
func wantClass(t *testing.T, conn target.Conn, want limiter.Class) {
	t.Helper()
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	for _, e := range every("local-bucket") {
		l, err := e.New(rdb, limiter.Limit{Events: 7, Window: time.Minute})
		if err != nil {
			t.Fatal(err)
		}
		d, err := l.Check(t.Context(), "client", 1)
		var failed *limiter.Error
		if !errors.As(err, &failed) || failed.Class != want || failed.Unknown {
			t.Errorf("%s: %+v, %v; want an error of class %s, not counted", e.Name, d, err, want)
		}
	}
}
