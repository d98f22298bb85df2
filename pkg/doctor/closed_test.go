package doctor_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/doctor"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// odd is a server that answers each command, in lower case, with a line of its own choice.
func odd(t *testing.T, answer func(command string) string) target.Conn {
	t.Helper()
	at, err := net.Listen("unix", filepath.Join(t.TempDir(), "s"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { at.Close() })
	go func() {
		for {
			c, err := at.Accept()
			if err != nil {
				return
			}
			go func() {
				defer c.Close()
				for in := bufio.NewReader(c); ; {
					command, err := readCommand(in)
					if err != nil {
						return
					}
					fmt.Fprintf(c, "%s\r\n", answer(command))
				}
			}()
		}
	}()
	return target.Conn{Socket: at.Addr().String(), Timeout: 10 * time.Second}
}

func readCommand(in io.Reader) (string, error) {
	n := 0
	if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
		return "", err
	}
	words := make([]string, n)
	for i := range words {
		size := 0
		if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
			return "", err
		}
		word := make([]byte, size+2)
		if _, err := io.ReadFull(in, word); err != nil {
			return "", err
		}
		words[i] = string(word[:size])
	}
	return strings.ToLower(strings.Join(words, " ")), nil
}

// clockAnd lets everybody in and tells the time, and answers all else with that line.
func clockAnd(otherwise string) func(string) string {
	return func(command string) string {
		switch word, _, _ := strings.Cut(command, " "); word {
		case "hello":
			return "-ERR unknown command 'hello'"
		case "auth":
			return "+OK"
		case "time":
			return "*2\r\n$10\r\n1700000000\r\n$1\r\n0"
		}
		return otherwise
	}
}

func planAt(conn target.Conn) doctor.Plan {
	return doctor.Plan{Conn: conn, Limiter: "sliding-log", Limit: limiter.Limit{Events: 100, Window: time.Minute}, Prefix: "p"}
}

// A conversation that does not begin is an error, in the server's words, and no list of things that could not be seen.
func TestARefusedConversationIsAnError(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		answer func(string) string
		db     int
		want   string
	}{
		"to everybody":    {func(string) string { return "-ERR go away" }, 0, "go away"},
		"to a database":   {clockAnd("-ERR DB index is out of range"), 9, "DB index is out of range"},
		"while it begins": {func(string) string { return "-LOADING not yet" }, 0, "not yet"},
	} {
		conn := odd(t, c.answer)
		conn.DB = c.db
		result, err := planAt(conn).Run(t.Context(), target.Catalogue())
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("refused %s: error %v, result %+v", name, err, result)
		}
	}
}

// A client that goes to the database by itself gives the refusal to nobody's question: then nothing was asked.
func TestNothingAskedIsNoRight(t *testing.T) {
	t.Parallel()
	conn := odd(t, clockAnd("-ERR DB index is out of range"))
	conn.DB = 9
	rdb, err := conn.Open(1)
	if err != nil {
		t.Fatal(err)
	}
	defer rdb.Close()
	if got, err := doctor.RightsOf(t.Context(), rdb.(*redis.Client), "", healthy().Wants); err == nil {
		t.Errorf("%+v", got)
	}
}

// What no answer tells is not fine, whatever the server says instead.
func TestOddAnswersAreNotFine(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"-ERR not today", "-ODD", "-NOPERM no", "-ERR User default has no permissions to access that database",
	} {
		result, err := planAt(odd(t, clockAnd(line))).Run(t.Context(), target.Catalogue())
		if err != nil {
			t.Errorf("%q: %v", line, err)
			continue
		}
		for _, g := range result.Results {
			if own := g.Check == "latency" || g.Check == "clock"; !own && g.Level != doctor.Unknown {
				t.Errorf("%q: %+v", line, g)
			}
		}
	}
}

// Each way of trying a right has one answer that says yes.
func TestOnlyAYesIsARight(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		dryrun, multi, queued string
		how                   string // the level, and what was seen
	}{
		{"+OK", "", "", "fine: sliding-log may all that it needs, and so may all others (ACL DRYRUN)"},
		{"+maybe", "", "", "unknown: could not look: the server's answers do not tell whether sliding-log may +evalsha"},
		{"-ERR Command 'x' not found", "", "", "danger: commands that sliding-log needs are not there: +evalsha"},
		{"-ERR User 'x' not found", "+OK", "+QUEUED", "fine: sliding-log may all that it needs (MULTI and DISCARD)"},
		{"-ERR no", "+OK", "+QUEUED", "fine: sliding-log may all that it needs (MULTI and DISCARD)"},
		{"-ERR no", "+OK", "+OK", "unknown: could not look: the server's answers do not tell whether sliding-log may +evalsha"},
		{"-ERR no", "+maybe", "+QUEUED", "fine: sliding-log may all that it needs (each command, "}, // no transaction began
	} {
		conn := odd(t, func(command string) string {
			switch {
			case strings.HasPrefix(command, "acl dryrun"):
				return c.dryrun
			case command == "multi":
				return c.multi
			case c.multi != "" && command != "hello 2":
				return c.queued
			}
			return "-ERR no"
		})
		rdb, err := conn.Open(1)
		if err != nil {
			t.Fatal(err)
		}
		defer rdb.Close()
		f := healthy()
		if f.Rights.Value, err = doctor.RightsOf(t.Context(), rdb.(*redis.Client), "", f.Wants); err != nil {
			t.Fatal(err)
		}
		got := find(t, doctor.Examine(f), "rights")
		if how := string(got.Level) + ": " + got.Seen; !strings.HasPrefix(how, c.how) {
			t.Errorf("%+v: %s", c, how)
		}
	}
}

// Where the server's words hold nothing of the user they are told, and else only their kind.
func TestWhyNothingWasSeen(t *testing.T) {
	t.Parallel()
	for user, want := range map[string]string{"bob": "INFO failed: alice may not today", "alice": "INFO failed: ERR"} {
		conn := odd(t, clockAnd("-ERR alice may not today"))
		conn.User, conn.Password = user, "x"
		result, err := planAt(conn).Run(t.Context(), target.Catalogue())
		if err != nil {
			t.Fatal(err)
		}
		if got := find(t, result.Results, "version"); !strings.HasSuffix(got.Seen, want) {
			t.Errorf("to %s: %q, want %q", user, got.Seen, want)
		}
	}
}
