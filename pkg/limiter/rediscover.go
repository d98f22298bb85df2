package limiter

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// Rediscover has the client of a cluster ask who has which slots, if err is one after which another node may have those of
// the key. It returns at once; the client asks in the background, at most five times a second.
//
// go-redis asks when it is told MOVED, and before it sends a command once more that was not answered. Ours are never sent
// once more. So of a master that died it would learn only at its next look of its own, a minute later, and until then
// would ask nobody else.
func Rediscover(rdb redis.UniversalClient, err error) {
	var e *Error
	cluster, ok := rdb.(interface{ ReloadState(context.Context) })
	if !ok || !errors.As(err, &e) {
		return
	}
	switch e.Class {
	case ClassUnreachable, ClassNoAnswer, ClassReadOnly, ClassLoading, ClassCluster:
		cluster.ReloadState(context.Background())
	}
}
