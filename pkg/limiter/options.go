package limiter

import "time"

// Settings are what the options of New set.
type Settings struct {
	Prefix string           // first word of every key
	Clock  func() time.Time // the caller's clock; nil leaves the decision to the server's
	File   string           // where the script's source stands, for errors; empty is the limiter's name and .lua
	Loaded func()           // is told of each time the script was loaded; nil if nobody wants to know
}

// Option changes one setting of a limiter.
type Option func(*Settings)

// Apply returns the defaults as changed by opts.
func Apply(opts ...Option) Settings {
	s := Settings{Prefix: "ratelimit"}
	for _, o := range opts {
		o(&s)
	}
	return s
}

// WithPrefix sets the first word of every key, "ratelimit" by default. Two limits on one client want two prefixes.
func WithPrefix(prefix string) Option { return func(s *Settings) { s.Prefix = prefix } }

// WithClock makes the limiter decide on the caller's clock, and leave Decision.At zero. It exists to show why that is
// wrong, and for limiters that have no other.
func WithClock(now func() time.Time) Option { return func(s *Settings) { s.Clock = now } }

// WithFile says where the source of a script stands. Errors that the script raises name it.
func WithFile(file string) Option { return func(s *Settings) { s.File = file } }

// WithLoaded has loaded called each time that the server did not know the script and was given it: once at the start of
// its life, and again after SCRIPT FLUSH, a restart or a failover. Callers who meet a forgotten script at once each load
// it. It is called by many goroutines at once, and its time is the caller's. Limiters without a script never call it.
func WithLoaded(loaded func()) Option { return func(s *Settings) { s.Loaded = loaded } }
