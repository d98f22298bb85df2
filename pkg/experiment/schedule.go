package experiment

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/explore"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/target"
)

// scheduled is an exploration, or one schedule of it.
//
// A schedule's id is all that it takes to run it again:
//
//	naive-counter:k2c1:100/1m0s:last:ABAB
//
// the limiter; clients and calls of each; limit, window and, after another slash, a burst; the start, with "+skew" where
// the clients' clocks differ, and "+release" where they give back what they took; and who goes at each step, in lower case who dies in it.
type scheduled struct {
	explore.Plan
	order string // empty: all of them
}

// id is the schedule's id.
func (p scheduled) id(order string) string {
	limit := fmt.Sprintf("%d/%s", p.Limit.Events, p.Limit.Window)
	if p.Limit.Burst > 0 {
		limit += fmt.Sprintf("/%d", p.Limit.Burst)
	}
	start := string(p.Start)
	if p.Skew {
		start += skewed
	}
	if p.Release {
		start += releasing
	}
	return fmt.Sprintf("%s:k%dc%d:%s:%s:%s", p.Entry.Name, p.Clients, p.Calls, limit, start, order)
}

const (
	skewed    = "+skew"
	releasing = "+release"
)

var errSchedule = errors.New("--schedule: want an id as prove shows it, like naive-counter:k2c1:100/1m0s:last:ABAB")

// ScheduledLimiter is the name in a schedule's id; empty if it is none.
func ScheduledLimiter(id string) string {
	name, _ := splitSchedule(id)
	return name
}

// splitSchedule takes an id apart. A name from outside may hold colons.
func splitSchedule(id string) (name string, fields []string) {
	all := strings.Split(id, ":")
	if len(all) < 5 {
		return "", nil
	}
	return strings.Join(all[:len(all)-4], ":"), all[len(all)-4:]
}

// scheduled reads the id of the plan's one schedule.
func (p Prove) scheduled(catalogue []target.Entry) (scheduled, error) {
	name, fields := splitSchedule(p.Schedule)
	if name == "" {
		return scheduled{}, errSchedule
	}
	e, err := target.Find(catalogue, name)
	if err != nil {
		return scheduled{}, fmt.Errorf("--schedule: %w", err)
	}
	start, release := strings.CutSuffix(fields[2], releasing)
	start, skew := strings.CutSuffix(start, skewed)
	if release && !e.Releases() {
		return scheduled{}, errSchedule
	}
	s := scheduled{order: fields[3], Plan: explore.Plan{
		Entry: e, Start: explore.Start(start), Skew: skew, Release: release, Crash: strings.ToUpper(fields[3]) != fields[3], Prefix: p.Prefix,
	}}
	if _, err := fmt.Sscanf(fields[0], "k%dc%d", &s.Clients, &s.Calls); err != nil {
		return scheduled{}, errSchedule
	}
	if s.Limit, err = scheduledLimit(fields[1]); err != nil || s.order == "" || s.id(s.order) != p.Schedule {
		return scheduled{}, errSchedule
	}
	if s.Start != explore.Empty && s.Start != explore.OneLeft {
		return scheduled{}, errSchedule
	}
	if s.CheckOrder(s.order) != nil {
		return scheduled{}, errSchedule
	}
	err = Prove{Limiters: []string{name}, Limit: s.Limit, Clients: s.Clients, Calls: s.Calls, Prefix: p.Prefix}.Validate(catalogue)
	if err != nil {
		return scheduled{}, fmt.Errorf("--schedule: %w", err)
	}
	return s, nil
}

func scheduledLimit(text string) (l limiter.Limit, err error) {
	parts := strings.Split(text, "/")
	if len(parts) < 2 || len(parts) > 3 {
		return l, errSchedule
	}
	if l.Window, err = time.ParseDuration(parts[1]); err != nil {
		return l, err
	}
	if _, err = fmt.Sscan(parts[0], &l.Events); err != nil || len(parts) == 2 {
		return l, err
	}
	_, err = fmt.Sscan(parts[2], &l.Burst)
	return l, err
}
