package policy

// A refused client that keeps asking costs a round trip each time, to be told again what it was told before. Whoever was
// told to wait can be told so from memory: by every rule here a refusal stays right until its wait is over, whoever else
// asks meanwhile, since others can only take.
//
// So the deny cache keeps, for a client and a cost, what the server said and when the question was sent. The server's
// clock stood no earlier than that when it decided, so that by ours the wait is over no later than by the server's; and
// since clocks differ in rate, it is taken to be over a thousandth early. From then on the server is asked again. A
// refusal from memory says what is left of the wait, bears no server time, since no server decided, and costs no I/O.
//
// It admits nobody, so the limit is kept whatever the cache does. And it refuses nobody for longer than the server would
// while the server's clock is not set forward, and the key is changed by nothing but requests under the same limit, window
// and burst. Where that does not hold (a changed limit capped what was used, a key was deleted or evicted or lost in a
// failover, a clock stepped or was slewed by more than a thousandth, the caller's machine slept), a refusal may outlast the
// server's: until the wait that was told is over, and MaxAge at most. A changed limit of ours is another limiter, and so
// another cache, which knows nothing yet.
//
// Other costs are other questions: a smaller one may pass, and a larger one has a wait of its own, which nobody knows
// before it was asked. Peeks, and what waiting does not help, always ask. A semaphore is refused: a release frees a slot
// before the wait is over.
//
// The memory is a table of fixed size. A client's refusals lie in one set of eight places, found by a hash that is seeded
// anew in each process; a set that is full gives up what is due first. Refusals are never changed once they are in it, so
// that readers take no lock and write nothing, and callers of one hot key do not wait for each other. What it gives up: a
// flood of refused clients pushes others out, who then ask again; of one client eight costs are known at once, so that one
// who invents costs pushes out no more than those who share its set.

import (
	"context"
	"errors"
	"hash/maphash"
	"math"
	"math/bits"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rlctl/rlctl/pkg/limiter"
)

// Defaults and bounds of a DenyCache.
const (
	DefaultDenyEntries = 1 << 16          // refusals; some 7 MiB with ids of 20 bytes, 21 MiB with the longest
	MaxDenyEntries     = 1 << 26          // refusals
	DefaultDenyMaxAge  = 10 * time.Second // after which a client's refusal is the server's again

	placesOfSet = 8
	longestKept = 256  // bytes; longer ids always ask, or a few would fill the memory
	clocksApart = 1000 // two clocks may differ in rate by one part in so many, twice what NTP slews at most
)

// DenyCache is how refusals are remembered. The zero value will do.
type DenyCache struct {
	// Entries is the most that are kept, of all clients, rounded up to eights; 0 means DefaultDenyEntries. A client whose
	// refusal finds no place asks each time. That is one client in a thousand if there are four entries for each client
	// that is being refused, one in twenty if there are two, and up to half if there is one.
	Entries int

	MaxAge time.Duration // the longest that one is answered from memory; 0 means DefaultDenyMaxAge

	// IgnoresIDs says that the limiter knows no request again by its id, as only logs and semaphores do. Then requests
	// that bring an id are answered from memory as well; else they always ask, since the id may have been admitted before.
	IgnoresIDs bool

	// Clock is what time is measured on; nil is this process's monotonic clock, which nobody sets.
	Clock func() time.Time

	// Answered, if not nil, is told of each refusal from memory. It is called by many goroutines at once, and its time is
	// the caller's.
	Answered func()
}

func (c DenyCache) validate() error {
	switch {
	case c.Entries < 0 || c.Entries > MaxDenyEntries:
		return errors.New("policy: entries of the deny cache must be 0 to 67108864")
	case c.MaxAge < 0:
		return errors.New("policy: longest age of the deny cache must not be negative")
	}
	return nil
}

// WithDenyCache returns next, which must be one limiter of one limit, behind a memory of its refusals: a client that was
// told to wait is refused without asking until its wait, measured from when it asked, is over. Allowed answers, errors,
// a policy's own answers (Degraded), peeks and limiter.Never are not remembered. A refusal from memory has At zero,
// RetryAfter and ResetAfter less the time since, and Remaining as it was told. It is given even if the context has ended.
//
// It is Identified if next is, and a Resetter if next is, or what next is wrapped around: Reset forgets the client here,
// too. It takes next's waits at their word: of a limiter that rounds them up, refusals last as long as was said. An error
// names the field at fault, or says that next is a semaphore, or wrapped around one.
func WithDenyCache(next limiter.Limiter, c DenyCache) (limiter.Limiter, error) {
	if _, gives := limiter.As[limiter.Releaser](next); gives {
		return nil, errors.New("policy: a deny cache would refuse although a slot was released")
	}
	if err := c.validate(); err != nil {
		return nil, err
	}
	d := newDenying(next, c)
	named, identified := next.(limiter.Identified)
	reset, resets := limiter.As[limiter.Resetter](next)
	byID, byKey := denyingByID{d, named}, forgetting{&d.kept, reset}
	switch {
	case identified && resets:
		return struct {
			denyingByID
			forgetting
		}{byID, byKey}, nil
	case identified:
		return byID, nil
	case resets:
		return struct {
			*denying
			forgetting
		}{d, byKey}, nil
	}
	return d, nil
}

// denying is a limiter behind a deny cache.
type denying struct {
	DenyCache
	next  limiter.Limiter
	epoch time.Time // instants are ns since then
	kept  denials
}

func newDenying(next limiter.Limiter, c DenyCache) *denying {
	if c.Entries == 0 {
		c.Entries = DefaultDenyEntries
	}
	if c.MaxAge == 0 {
		c.MaxAge = DefaultDenyMaxAge
	}
	d := &denying{DenyCache: c, next: next, epoch: time.Now(), kept: newDenials(c.Entries)}
	if c.Clock != nil {
		d.epoch = c.Clock()
	}
	return d
}

// Unwrap is the limiter.
func (d *denying) Unwrap() limiter.Limiter { return d.next }

func (d *denying) now() time.Duration {
	if d.Clock != nil {
		return d.Clock().Sub(d.epoch)
	}
	return time.Since(d.epoch)
}

// Check refuses from memory, or asks.
func (d *denying) Check(ctx context.Context, key string, cost int64) (limiter.Decision, error) {
	now := d.now()
	if told, ok := d.recall(key, cost, now); ok {
		return told, nil
	}
	resets := d.kept.resets.Load()
	told, err := d.next.Check(ctx, key, cost)
	d.remember(key, cost, now, told, err, resets)
	return told, err
}

// denyingByID is one whose limiter takes ids.
type denyingByID struct {
	*denying
	named limiter.Identified
}

// CheckID is Check of the request with that id.
func (d denyingByID) CheckID(ctx context.Context, key string, cost int64, id string) (limiter.Decision, error) {
	now := d.now()
	if d.IgnoresIDs && limiter.CheckRequest(key, cost, id) == nil { // what no limiter takes is an error here, too
		if told, ok := d.recall(key, cost, now); ok {
			return told, nil
		}
	}
	resets := d.kept.resets.Load()
	told, err := d.named.CheckID(ctx, key, cost, id)
	d.remember(key, cost, now, told, err, resets)
	return told, err
}

// forgetting has a limiter forget a key.
type forgetting struct {
	kept *denials
	next limiter.Resetter
}

// Reset forgets the client, in the limiter first: what that still says of the time before is not remembered.
func (f forgetting) Reset(ctx context.Context, key string) error {
	err := f.next.Reset(ctx, key)
	f.kept.resets.Add(1)
	f.kept.forget(key)
	return err
}

// recall is what is remembered of a request, if its wait is not over.
func (d *denying) recall(client string, cost int64, now time.Duration) (told limiter.Decision, ok bool) {
	r := d.kept.find(client, cost)
	if r == nil || now < r.sent {
		return told, false
	}
	since := (now - r.sent + time.Microsecond - 1).Truncate(time.Microsecond) // the server's may have shown that many pass
	if since >= r.span {
		return told, false
	}
	if d.Answered != nil {
		d.Answered()
	}
	return limiter.Decision{
		Remaining: r.remaining, RetryAfter: r.retry - since, ResetAfter: max(0, r.reset-since),
	}, true
}

// remember keeps what was told of a request that was sent at an instant, if it is a refusal that stays right.
func (d *denying) remember(client string, cost int64, sent time.Duration, told limiter.Decision, err error, resets uint64) {
	if err != nil || told.Allowed || told.Degraded || told.RetryAfter <= 0 || cost <= 0 || len(client) > longestKept {
		return
	}
	r := &refusal{
		client: strings.Clone(client), cost: cost, sent: sent, span: min(told.RetryAfter-told.RetryAfter/clocksApart, d.MaxAge),
		remaining: told.Remaining, retry: told.RetryAfter, reset: told.ResetAfter,
	}
	d.kept.keep(r)
	if d.kept.resets.Load() != resets { // it may be of the time before
		d.kept.forget(client)
	}
}

// refusal is what was told of a cost that a client asked for. It is never changed.
type refusal struct {
	client       string
	cost         int64
	sent         time.Duration // an instant
	span         time.Duration // for which it stays right from then on
	remaining    int64
	retry, reset time.Duration // as the limiter told them
}

// denials are the refusals that are remembered. Two that are kept at the same moment may take each other's place, or
// stand there twice: both are right, and what is lost is asked for.
//
// To fetch other clients' refusals from memory, only to see that they are not the one wanted, would take a reader longer
// than all else. So each place has a tag, eight bits of its client's hash, and the tags of a set are one word. A tag only
// says where to look: the refusal itself says whose it is, and writers go by that. Where two writers left a wrong tag the
// server is asked, and the answer puts the tag right.
type denials struct {
	seed   maphash.Seed
	tags   []atomic.Uint64
	sets   []set
	resets atomic.Uint64
}

// set is the places that a client's refusals may have.
type set [placesOfSet]atomic.Pointer[refusal]

func newDenials(entries int) denials {
	sets := (entries + placesOfSet - 1) / placesOfSet
	return denials{seed: maphash.MakeSeed(), tags: make([]atomic.Uint64, sets), sets: make([]set, sets)}
}

// of is where the refusals of a client lie, and the tag that they have there.
func (d *denials) of(client string) (*set, *atomic.Uint64, uint8) {
	hash := maphash.String(d.seed, client)
	i, _ := bits.Mul64(hash, uint64(len(d.sets)))
	return &d.sets[i], &d.tags[i], uint8(hash)
}

// find is the refusal of that cost, nil if there is none.
func (d *denials) find(client string, cost int64) *refusal {
	set, tags, tag := d.of(client)
	for like := alike(tags.Load(), tag); like != 0; like &= like - 1 {
		if r := set[bits.TrailingZeros64(like)/8].Load(); r != nil && r.cost == cost && r.client == client {
			return r
		}
	}
	return nil
}

// alike has the highest bit set of each byte that is the tag, and maybe of a byte above such a one that is not.
func alike(tags uint64, tag uint8) uint64 {
	const ones = 0x0101010101010101
	zero := tags ^ ones*uint64(tag)
	return (zero - ones) &^ zero & (ones << 7)
}

// keep puts a refusal in the place of the one before it, or an empty one, or that of the one that is due first.
func (d *denials) keep(r *refusal) {
	set, tags, tag := d.of(r.client)
	into := set.place(r)
	set[into].Store(r)
	for shift := 8 * into; ; {
		old := tags.Load()
		if tags.CompareAndSwap(old, old&^(0xff<<shift)|uint64(tag)<<shift) {
			return
		}
	}
}

// place is where a refusal belongs.
func (s *set) place(r *refusal) (into int) {
	first := time.Duration(math.MaxInt64)
	for i := range s {
		held := s[i].Load()
		due := time.Duration(math.MinInt64) // of an empty place, before all others
		switch {
		case held == nil:
		case held.cost == r.cost && held.client == r.client:
			return i
		default:
			due = held.sent + held.span
		}
		if due < first {
			into, first = i, due
		}
	}
	return into
}

// forget drops all refusals of a client.
func (d *denials) forget(client string) {
	set, _, _ := d.of(client)
	for i := range set {
		if r := set[i].Load(); r != nil && r.client == client {
			set[i].CompareAndSwap(r, nil)
		}
	}
}
