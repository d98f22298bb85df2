package experiment

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/fleet"
	"github.com/rlctl/rlctl/pkg/history"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/pkg/replay"
	"github.com/rlctl/rlctl/pkg/target"
)

// The faults of a cluster leave its clock alone, by which its nodes tell who is gone, and cut no single reply, since its
// clients go to each node by themselves. They stop a node for less than the others wait for it.
const (
	faultFailover = "failover"
	nodeStopFor   = 300 * time.Millisecond
	movePause     = 30 * time.Millisecond // between two steps of a slot that moves
)

// clusterFaults is the table of a cluster.
func clusterFaults() []stressFault {
	return []stressFault{
		{name: "script-flush", what: "a master forgets all scripts", do: flushOneMaster, not: elsewhere},
		{name: "client-kill", what: "the masters close all connections", do: killAllClients, not: speechless},
		{name: "client-pause", what: "a master answers nobody for a while", do: pauseOneMaster, not: elsewhere},
		{name: faultWorkerKill, what: "a process of callers dies in mid-call", most: 1, do: killWorker, not: lastWorker},
		{name: "worker-stop", what: "a process of callers stops and goes on", do: stopWorker},
		{name: "server-stop", what: "a master stops for longer than calls wait, and goes on", do: stopOneMaster, not: elsewhere},
		{name: "slot-move", what: "the slot of a key moves to another master while it is asked", do: moveSlot, not: elsewhere},
		{name: faultFailover, what: "the master of a key dies, and its replica takes its place", most: 1, do: failOverKey, not: elsewhere},
	}
}

// table has the faults that can come.
func (p Stress) table() []stressFault {
	if p.Cluster {
		return clusterFaults()
	}
	return stressFaults()
}

// anyMaster is one at random, of those that have the slots of a key that is asked.
func (s *stressing) anyMaster(ctx context.Context) (*redisd.Node, error) {
	return s.srv.group.MasterOf(ctx, s.names[s.random.IntN(len(s.names))])
}

func flushOneMaster(ctx context.Context, s *stressing) (int64, error) {
	n, err := s.anyMaster(ctx)
	if err != nil {
		return 0, err
	}
	return 1, n.Client().ScriptFlush(ctx).Err()
}

func killAllClients(ctx context.Context, s *stressing) (sum int64, err error) {
	for _, n := range s.srv.group.Masters(ctx) {
		killed, err := n.Client().ClientKillByFilter(ctx, "TYPE", "normal", "SKIPME", "yes").Result()
		if err != nil {
			return sum, err
		}
		sum += killed
	}
	return sum, nil
}

func pauseOneMaster(ctx context.Context, s *stressing) (int64, error) {
	n, err := s.anyMaster(ctx)
	if err == nil {
		err = n.Client().ClientPause(ctx, pauseFor).Err()
	}
	if err != nil {
		return 0, err
	}
	wait(ctx, pauseFor)
	return 1, nil
}

func stopOneMaster(ctx context.Context, s *stressing) (int64, error) {
	n, err := s.anyMaster(ctx)
	if err == nil {
		err = n.Stop()
	}
	if err != nil {
		return 0, err
	}
	wait(ctx, min(nodeStopFor, s.Timeout+s.Timeout/2))
	return 1, n.Continue()
}

func moveSlot(ctx context.Context, s *stressing) (int64, error) {
	keys, err := s.srv.group.Move(ctx, s.names[s.random.IntN(len(s.names))], movePause)
	return int64(max(1, keys)), err // one that had just died moves with its slot
}

// failOverKey kills the master of the first key, notes which keys it had, and brings it back as a replica.
func failOverKey(ctx context.Context, s *stressing) (int64, error) {
	had := map[string]*redisd.Node{}
	for _, name := range s.names {
		n, err := s.srv.group.MasterOf(ctx, name)
		if err != nil {
			return 0, err
		}
		had[name] = n
	}
	t, err := s.srv.failOver(ctx, s.names[0], s.Lag)
	if err != nil {
		return 0, err
	}
	s.taken = &t
	for i, name := range s.names {
		if had[name] == t.Died {
			s.orphans = append(s.orphans, fleet.WildKey(s.base, i))
		}
	}
	return int64(len(s.orphans)), s.srv.group.Revive(ctx, t.Failover)
}

// redisKeys are the names in Redis of the keys that are asked.
func (s *stressing) redisKeys(e target.Entry, base string) (names []string, err error) {
	for i := range s.Keys {
		name, err := limiter.Key(s.Prefix, fleet.WildKey(base, i), e.Name)
		if err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, nil
}

// judgeKey judges the calls on one key, and tells how many events a failover lost.
func judgeKey(ops []history.Op, e target.Entry, course replay.Course, faults []history.Fault, key string) (replay.Judgement, int64) {
	i := slices.IndexFunc(faults, func(f history.Fault) bool { return f.Name == faultFailover && slices.Contains(f.Keys, key) })
	if i < 0 {
		return replay.JudgeCourse(ops, e.Judged(), course), 0
	}
	j, loss := replay.JudgeFailover(ops, e.Judged(), course, faults[i].From)
	return j, loss.Events
}

// usurped tells of a master that took its place unasked, because another was silent on a busy machine: what that lost is
// nobody's fault but the machine's.
func (s *stressing) usurped(ctx context.Context) string {
	if s.srv.group == nil {
		return ""
	}
	want := slices.Clone(s.masters)
	if s.taken != nil {
		want[slices.Index(want, s.taken.Died)] = s.taken.Took
	}
	var strangers []string
	for _, n := range s.srv.group.Masters(ctx) {
		if !slices.Contains(want, n) {
			strangers = append(strangers, n.Addr)
		}
	}
	if strangers == nil {
		return ""
	}
	return fmt.Sprintf("a failover came that nobody ordered, to %s: the machine is too busy", strings.Join(strangers, ", "))
}
