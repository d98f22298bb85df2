package main

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"strconv"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/internal/madelog"
	"github.com/rlctl/rlctl/pkg/experiment"
	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/redisd"
	"github.com/rlctl/rlctl/scripts"
)

// refusedBy asks servers, each of them for some of the clients, and puts together what they refused.
func refusedBy(ctx context.Context, servers []*redisd.Server, names []string, l limiter.Limit, requests []madelog.Request,
) (map[string]experiment.Refusals, error) {
	shares := make([][]madelog.Request, len(servers))
	for _, r := range requests {
		h := fnv.New32a()
		h.Write([]byte(r.Key))
		n := h.Sum32() % uint32(len(servers))
		shares[n] = append(shares[n], r)
	}
	all := make([]map[string]experiment.Refusals, len(servers))
	errs := make([]error, len(servers))
	var running sync.WaitGroup
	for i, s := range servers {
		running.Go(func() { all[i], errs[i] = refusedByOne(ctx, s, names, l, shares[i]) })
	}
	running.Wait()
	sum := map[string]experiment.Refusals{}
	for _, name := range names {
		of := experiment.Refusals{Of: map[string]int64{}}
		for _, one := range all {
			for client, n := range one[name].Of {
				of.Of[client] += n
			}
			of.At = append(of.At, one[name].At...)
		}
		sum[name] = of
	}
	return sum, errors.Join(errs...)
}

// asker asks a server.
type asker struct {
	rdb   *redis.Client
	clock *redisd.Clock
	limit limiter.Limit
	names []string
	shas  []string
	ids   int64
	said  map[string]experiment.Refusals
}

// most is how many requests of one instant are sent together.
const most = 500

// refusedByOne sets a server's clock to the time of each request and asks every limiter. Requests of one instant are sent
// together, which a server executes in their order; the clock is moved when all answers are there.
func refusedByOne(ctx context.Context, s *redisd.Server, names []string, l limiter.Limit, requests []madelog.Request) (map[string]experiment.Refusals, error) {
	a := &asker{
		rdb: redis.NewClient(&redis.Options{
			Network: "unix", Addr: s.Socket(), Protocol: 2, DisableIdentity: true, MaxRetries: -1, ReadTimeout: time.Minute,
		}),
		clock: s.Clock(), limit: l, names: names, said: map[string]experiment.Refusals{},
	}
	defer a.rdb.Close()
	for _, name := range names {
		source, ok := scripts.Source(name)
		if !ok {
			return nil, fmt.Errorf("%s has no script", name)
		}
		sha, err := a.rdb.ScriptLoad(ctx, source).Result()
		if err != nil {
			return nil, fmt.Errorf("load %s: %w", name, err)
		}
		a.shas = append(a.shas, sha)
		a.said[name] = experiment.Refusals{Of: map[string]int64{}}
	}
	for len(requests) > 0 {
		n := 1
		for n < len(requests) && n < most && requests[n].At == requests[0].At {
			n++
		}
		if err := a.ask(ctx, requests[:n]); err != nil {
			return nil, err
		}
		requests = requests[n:]
	}
	return a.said, nil
}

// ask sends requests of one instant.
func (a *asker) ask(ctx context.Context, together []madelog.Request) error {
	a.clock.Freeze(together[0].At)
	pipe := a.rdb.Pipeline()
	var replies []*redis.Cmd
	for _, r := range together {
		for i, name := range a.names {
			key, err := limiter.Key("ratelimit", r.Key, name)
			if err != nil {
				return err
			}
			a.ids++
			replies = append(replies, pipe.EvalSha(ctx, a.shas[i], []string{key}, a.limit.Events, a.limit.Window.Microseconds(), a.limit.Burst, r.Cost,
				strconv.FormatInt(a.ids, 36), 0))
		}
	}
	if _, err := pipe.Exec(ctx); err != nil {
		return fmt.Errorf("ask at %d: %w", together[0].At, err)
	}
	for i, reply := range replies {
		if err := a.take(together[i/len(a.names)], a.names[i%len(a.names)], reply); err != nil {
			return err
		}
	}
	return nil
}

// take notes a refusal.
func (a *asker) take(r madelog.Request, name string, reply *redis.Cmd) error {
	five, err := reply.Int64Slice()
	if err != nil || len(five) != 5 || five[4] != r.At {
		return fmt.Errorf("%s at %d: the reply is %v, %w", name, r.At, five, err)
	}
	if five[0] == 0 {
		said := a.said[name]
		said.Of[r.Key]++
		said.At = append(said.At, r.At)
		a.said[name] = said
	}
	return nil
}
