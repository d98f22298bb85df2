package cmd

import (
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/rlctl/rlctl/pkg/limiter"
	"github.com/rlctl/rlctl/pkg/report"
)

// limitFlags are --limit, --window and --burst. Every value is read when it is set, so that an error names its flag.
type limitFlags struct {
	limit  rate
	window window
	burst  int64
}

// register adds the flags with their defaults.
func (l *limitFlags) register(c *cobra.Command, events int64) {
	l.limit.events = events
	l.window = window(time.Minute)
	c.Flags().Var(&l.limit, "limit", "events per window, or per the window given with it: 100/1m")
	c.Flags().Var(&l.window, "window", "the window: Go's durations (500ms, 1m30s) and days (1d)")
	c.Flags().Var(whole{&l.burst, 0, limiter.MaxEvents}, "burst", "capacity of a bucket; 0 means the limit")
}

// read returns the limit that the flags mean together.
func (l *limitFlags) read(flags *pflag.FlagSet) (limiter.Limit, error) {
	limit := limiter.Limit{Events: l.limit.events, Window: time.Duration(l.window), Burst: l.burst}
	if l.limit.window == 0 {
		return limit, nil
	}
	if flags.Changed("window") {
		return limit, usagef("--window: --limit %s names a window already", l.limit.String())
	}
	limit.Window = time.Duration(l.limit.window)
	return limit, nil
}

// rate is a number of events, with the window if one was given.
type rate struct {
	events int64
	window window // 0 if none was given
}

func (r *rate) Type() string { return "N|N/WINDOW" }

func (r *rate) String() string {
	if r.window == 0 {
		return strconv.FormatInt(r.events, 10)
	}
	return strconv.FormatInt(r.events, 10) + "/" + r.window.String()
}

func (r *rate) Set(text string) error {
	number, per, given := strings.Cut(text, "/")
	if err := (whole{&r.events, 0, limiter.MaxEvents}).Set(number); err != nil {
		return err
	}
	r.window = 0
	if !given {
		return nil
	}
	return r.window.Set(per)
}

// whole is a flag that takes a whole number from least to most.
type whole struct {
	value       *int64
	least, most int64
}

func (w whole) Type() string   { return "N" }
func (w whole) String() string { return strconv.FormatInt(*w.value, 10) }

func (w whole) Set(text string) error {
	v, err := strconv.ParseInt(text, 10, 64)
	if err != nil || v < w.least || v > w.most {
		return fmt.Errorf("want a whole number from %s to %s", report.Int(w.least), report.Int(w.most))
	}
	*w.value = v
	return nil
}

// window is the length of a window: 1 ms to 366 days in whole microseconds.
type window time.Duration

func (w *window) Type() string   { return "DURATION" }
func (w *window) String() string { return report.Duration(time.Duration(*w)) }

func (w *window) Set(text string) error {
	d, err := parseDuration(text)
	switch {
	case err != nil:
		return err
	case d < limiter.MinWindow || d > limiter.MaxWindow:
		return errors.New("want 1ms to 366d")
	case d%time.Microsecond != 0:
		return errors.New("want whole microseconds")
	}
	*w = window(d)
	return nil
}

// duration is a time that something may take: more than 0.
type duration time.Duration

func (d *duration) Type() string   { return "DURATION" }
func (d *duration) String() string { return time.Duration(*d).String() }

func (d *duration) Set(text string) error {
	v, err := parseDuration(text)
	if err == nil && v <= 0 {
		err = errors.New("want more than 0")
	}
	*d = duration(v)
	return err
}

// patience is a time that one is willing to wait: 0 or more.
type patience time.Duration

func (p *patience) Type() string   { return "DURATION" }
func (p *patience) String() string { return report.Duration(time.Duration(*p)) }

func (p *patience) Set(text string) error {
	v, err := parseDuration(text)
	if err == nil && v < 0 {
		err = errors.New("want 0 or more")
	}
	*p = patience(v)
	return err
}

// parseDuration reads Go's durations with days before them: 1m30s, 2d, 1d12h.
func parseDuration(text string) (time.Duration, error) {
	days, rest := int64(0), text
	if m := regexp.MustCompile(`^([0-9]+)d([^+-].*)?$`).FindStringSubmatch(text); m != nil {
		n, err := strconv.ParseInt(m[1], 10, 64)
		if err != nil || n > math.MaxInt64/int64(24*time.Hour)/2 {
			return 0, errors.New("too long")
		}
		days, rest = n, m[2]
		if rest == "" {
			rest = "0"
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil {
		return 0, errors.New("want a duration such as 500ms, 1m30s or 1d")
	}
	return time.Duration(days)*24*time.Hour + d, nil
}
