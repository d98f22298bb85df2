package report

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Int writes n with thousands separators: 2,000.
func Int(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, d := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(d)
	}
	return sign + b.String()
}

// Signed writes n as a difference: +17, 0, -3.
func Signed(n int64) string {
	if n > 0 {
		return "+" + Int(n)
	}
	return Int(n)
}

// Figure writes a measured number with three digits that count: 0.0123, 4.56, 789, 12,345.
func Figure(x float64) string {
	switch size := math.Abs(x); {
	case math.IsNaN(x) || math.IsInf(x, 0) || size >= math.MaxInt64:
		return strconv.FormatFloat(x, 'g', 3, 64)
	case size >= 99.95:
		return Int(int64(math.Round(x)))
	case x == 0:
		return "0"
	case size < 0.000_1:
		return strconv.FormatFloat(x, 'e', 2, 64)
	default:
		digits := 2 - int(math.Floor(math.Log10(size)))
		text := strconv.FormatFloat(x, 'f', digits, 64)
		return strings.TrimSuffix(strings.TrimRight(text, "0"), ".")
	}
}

const day = 24 * time.Hour

// Duration writes d as Go does, with days, and rounded up to a whole millisecond, so that who waits that long has
// waited long enough: 41.207s, 1m0s, 366d.
func Duration(d time.Duration) string {
	if d > 0 {
		d = (d + time.Millisecond - 1).Truncate(time.Millisecond)
	}
	if d < day {
		return d.String()
	}
	days, rest := d/day, d%day
	if rest == 0 {
		return fmt.Sprintf("%dd", days)
	}
	return fmt.Sprintf("%dd%s", days, rest)
}

// Millis writes a measured time in milliseconds: 0.2 ms, 14 ms.
func Millis(d time.Duration) string {
	ms := float64(d) / float64(time.Millisecond)
	if ms < 10 {
		return fmt.Sprintf("%.1f ms", ms)
	}
	return Int(int64(ms+0.5)) + " ms"
}

// Count writes n with its noun: 1 process, 20 processes.
func Count(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Int(n) + " " + many
}
