package experiment

import (
	"context"
	"math/bits"
	"regexp"
	"strconv"
)

// tables work out what MEMORY USAGE leaves out, for the layout of Redis 7.0, so that it can be compared with what the
// server's used_memory grew by. MEMORY USAGE counts the key's name, its value and one entry of the main table. A key
// with a TTL takes more:
//
//	a slot in the main table        8 bytes times slots per key: a full table doubles, so 1 to 2 of them
//	a slot in the table of expiry   the same, since every key here has a TTL
//	an entry in that table          24 bytes; the name is shared with the main one
//
// Further, MEMORY USAGE adds up the sizes of some structures where the allocator gives more. Debian's jemalloc has a
// quantum of 16 and gives 32 bytes for 24, and 48 for 40:
//
//	an entry of a table             8 more, in the main one, in that of expiry, and for each event in the hash table
//	                                that a sorted set has beside its skip list
//	a list, and each of its nodes   8 more
//
// Redis's own jemalloc has a quantum of 8 and rounds none of these. And it counts as the key's own what is not: whole
// numbers below 10,000 that Redis keeps once for all keys, 16 bytes (OBJECT REFCOUNT tells them).
//
// Of 10,000 keys in 16,384 slots that is 13.1 + 13.1 + 24 = 50 bytes a key, and 66 with Debian's. How full a table is
// depends on the number of keys alone, which is why a million keys do not take a thousand times what a thousand do.
//
// What it gives up: servers with other layouts (Redis from 7.4 on, Valkey; a cluster's entries are longer by 16 bytes).
// There the two measures differ by more, and the result says by how much. Both are what the allocator gave out:
// fragmentation, replication buffers and the copies of pages that a fork makes come on top.
type tables struct {
	quantum int64 // bytes, of which the allocator gives out whole multiples
}

// Sizes in bytes, before the allocator rounds.
const (
	slot      = 8
	dictEntry = 24
	listNode  = 40 // and the list itself
	object    = 16
	nodeBytes = 8 << 10 // what a list packs into one node
)

// slots is how many slots Redis's table has for n keys: a power of two, at least 4.
func slots(n int64) int64 {
	if n <= 4 {
		return 4
	}
	return 1 << bits.Len64(uint64(n-1))
}

// rounding is what the allocator gives beyond size.
func (t tables) rounding(size int64) int64 { return (t.quantum - size%t.quantum) % t.quantum }

// perName is what a Redis key with a TTL takes beyond its MEMORY USAGE where there are n of them.
func (t tables) perName(n int64) float64 {
	share := float64(slots(n)) / float64(n)
	return 2*slot*share + dictEntry + float64(2*t.rounding(dictEntry))
}

// inner is what a value of that many entries and bytes takes beyond what MEMORY USAGE counts.
func (t tables) inner(encoding string, entries int64, bytes float64) float64 {
	switch encoding {
	case "skiplist":
		return float64(entries * t.rounding(dictEntry))
	case "quicklist":
		nodes := 1 + int64(bytes/nodeBytes)
		return float64((1 + nodes) * t.rounding(listNode))
	}
	return 0
}

var quantumLine = regexp.MustCompile(`Quantum size: ([1-9][0-9]*)`)

// tables asks the server's allocator. Where it does not tell, or may not be asked, it is taken for Redis's own.
func (s *server) tables(ctx context.Context) tables {
	stats, _ := s.rdb.Do(ctx, "memory", "malloc-stats").Text()
	return allocating(stats)
}

// allocating reads the statistics of jemalloc.
func allocating(stats string) tables {
	if found := quantumLine.FindStringSubmatch(stats); found != nil {
		if q, err := strconv.ParseInt(found[1], 10, 64); err == nil {
			return tables{q}
		}
	}
	return tables{8}
}
