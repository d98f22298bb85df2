package experiment

import (
	"context"
	"strconv"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/load"
	"github.com/rlctl/rlctl/pkg/target"
)

// reading is what a server, or all nodes of a cluster together, had counted at one moment.
type reading struct {
	known    bool // its user may read INFO
	at       time.Time
	cpu      time.Duration // of the main threads
	bytes    int64         // in and out
	own      int64         // bytes of the replies that tell this, which count after it is told
	commands map[string]commandStat
}

type commandStat struct {
	calls int64
	usec  int64
}

// use is what a server counted between two readings, less what the readings and the PINGs themselves took.
type use struct {
	elapsed  time.Duration
	cpu      time.Duration
	bytes    int64
	commands map[string]commandStat
}

// read asks each node. A user without the right to ask is told nothing, and that is no error.
func (s *server) read(ctx context.Context) (reading, error) {
	nodes, err := target.Nodes(ctx, s.rdb)
	if err != nil {
		return reading{}, uncounted(err)
	}
	r := reading{known: true, commands: map[string]commandStat{}}
	for _, n := range nodes {
		info, err := n.Info(ctx, infoAll).Result()
		if err := uncounted(err); forbidden(err) {
			return reading{}, nil
		} else if err != nil {
			return reading{}, err
		}
		r.add(info)
	}
	r.at = time.Now()
	return r, nil
}

// infoAll asks for all sections, since servers before 7.0 take but one name.
const (
	infoAll     = "all"
	infoRequest = int64(len("*2\r\n$4\r\ninfo\r\n$3\r\nall\r\n"))
	pingBytes   = int64(len("*1\r\n$4\r\nping\r\n") + len("+PONG\r\n"))
)

// add counts a node in. A replica only repeats what its master did.
func (r *reading) add(info string) {
	if strings.Contains(info, "\nrole:slave\r") {
		return
	}
	r.own += int64(len(info)+len("$\r\n\r\n")+len(strconv.Itoa(len(info)))) + infoRequest
	for line := range strings.Lines(info) {
		name, value, _ := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		switch {
		case name == "used_cpu_user_main_thread" || name == "used_cpu_sys_main_thread":
			seconds, _ := strconv.ParseFloat(value, 64)
			r.cpu += time.Duration(seconds * float64(time.Second))
		case name == "total_net_input_bytes" || name == "total_net_output_bytes":
			n, _ := strconv.ParseInt(value, 10, 64)
			r.bytes += n
		case strings.HasPrefix(name, "cmdstat_"):
			command := strings.TrimPrefix(name, "cmdstat_")
			c := r.commands[command]
			c.calls += statField(value, "calls=")
			c.usec += statField(value, "usec=")
			r.commands[command] = c
		}
	}
}

// statField finds a number in a line such as calls=5,usec=10,usec_per_call=2.00.
func statField(stat, name string) int64 {
	for part := range strings.SplitSeq(stat, ",") {
		if digits, ok := strings.CutPrefix(part, name); ok {
			n, _ := strconv.ParseInt(digits, 10, 64)
			return n
		}
	}
	return 0
}

// since is what was used after an earlier reading; nil if either knows nothing.
func (r reading) since(before reading, pings load.Summary) *use {
	if !r.known || !before.known {
		return nil
	}
	u := &use{
		elapsed: r.at.Sub(before.at), cpu: r.cpu - before.cpu, commands: map[string]commandStat{},
		bytes: r.bytes - before.bytes - before.own - pings.Calls()*pingBytes,
	}
	for name, c := range r.commands {
		c.calls -= before.commands[name].calls
		c.usec -= before.commands[name].usec
		if c.calls > 0 && name != "info" && name != "ping" {
			u.commands[name] = c
		}
	}
	return u
}

// scripted is what the scripts took; ok is false if there were none.
func (u *use) scripted() (c commandStat, ok bool) {
	for _, name := range []string{"evalsha", "eval"} {
		c.calls += u.commands[name].calls
		c.usec += u.commands[name].usec
	}
	return c, c.calls > 0
}

// others are all commands but the scripts themselves: those that the scripts called, or that a client sent. An EXEC
// counts and takes no time, since its own holds that of the commands in it.
func (u *use) others() (c commandStat) {
	for name, stat := range u.commands {
		if name == "evalsha" || name == "eval" {
			continue
		}
		c.calls += stat.calls
		if name != "exec" {
			c.usec += stat.usec
		}
	}
	return c
}
