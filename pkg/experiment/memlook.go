package experiment

import (
	"context"
	"errors"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// sight is what keys were found to be.
type sight struct {
	names     int64 // that exist
	usage     int64 // MEMORY USAGE of all, each entry counted
	nameBytes int64
	noTTL     int64
	shared    int64 // whose value is an object that many keys share
	encodings map[string]bool
}

// lookBatch is how many keys one pipeline asks about, or one DEL deletes, at most.
const lookBatch = 100

// look asks the server about every key that was touched.
func (f *filling) look(ctx context.Context) (sight, error) {
	s := sight{encodings: map[string]bool{}}
	for names := range slices.Chunk(f.names.sorted(), f.batch()) {
		if err := s.add(ctx, f.rdb, names); err != nil {
			return s, uncounted(err)
		}
	}
	return s, nil
}

func (s *sight) add(ctx context.Context, rdb redis.UniversalClient, names []string) error {
	answers := make([]said, len(names))
	_, err := rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		for i, name := range names {
			answers[i] = said{
				p.MemoryUsage(ctx, name, 0), p.ObjectEncoding(ctx, name), p.ObjectRefCount(ctx, name), p.PTTL(ctx, name),
			}
		}
		return nil
	})
	if err != nil && !errors.Is(err, redis.Nil) {
		return err
	}
	for i, name := range names {
		if err := s.take(name, answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// said is what the server says of one key.
type said struct {
	usage      *redis.IntCmd
	encoding   *redis.StringCmd
	references *redis.IntCmd
	ttl        *redis.DurationCmd
}

// sharedByAll is the number of references of an object that is never freed.
const sharedByAll = math.MaxInt32

// take counts a key in, unless there is none: it was only read, or has ended.
func (s *sight) take(name string, a said) error {
	err := errors.Join(a.usage.Err(), a.encoding.Err(), a.references.Err(), a.ttl.Err())
	if err != nil {
		if errors.Is(err, redis.Nil) {
			return nil
		}
		return err
	}
	s.names++
	s.usage += a.usage.Val()
	s.nameBytes += int64(len(name))
	s.encodings[a.encoding.Val()] = true
	if a.references.Val() == sharedByAll {
		s.shared++
	}
	if a.ttl.Val() == -1 {
		s.noTTL++
	}
	return nil
}

// encoding is how Redis keeps the values.
func (s sight) encoding() string { return strings.Join(slices.Sorted(maps.Keys(s.encodings)), "+") }

// empty takes everything away from a private server, without stopping it: half a GiB of entries take a second to free.
func (s *server) empty(ctx context.Context) error {
	if err := s.rdb.FlushAllAsync(ctx).Err(); err != nil {
		return uncounted(err)
	}
	for {
		if left, err := s.figure(ctx, "memory", "lazyfree_pending_objects"); left == 0 || err != nil {
			return err
		}
	}
}

// usedMemory is a private server's used_memory when nobody else is connected. It is read over a fresh connection, since
// the server resizes the buffers of an old one as it sees fit.
func (s *server) usedMemory(ctx context.Context) (int64, error) {
	if err := s.rdb.Close(); err != nil {
		return 0, err
	}
	var err error
	if s.rdb, err = s.conn.Open(1); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		connections, err := s.figure(ctx, "clients", "connected_clients")
		if err != nil {
			return 0, err
		}
		if connections == 1 {
			return s.figure(ctx, "memory", "used_memory")
		}
	}
}

// figure is one number of INFO.
func (s *server) figure(ctx context.Context, section, name string) (int64, error) {
	info, err := s.rdb.Info(ctx, section).Result()
	if err != nil {
		return 0, uncounted(err)
	}
	_, rest, ok := strings.Cut(info, "\n"+name+":")
	text, _, _ := strings.Cut(rest, "\r")
	value, err := strconv.ParseInt(text, 10, 64)
	if !ok || err != nil {
		return 0, &limiter.Error{Class: limiter.ClassOther, Err: errors.New("INFO " + section + " tells no " + name)}
	}
	return value, nil
}
