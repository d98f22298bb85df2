package accesslog

import (
	"bytes"
	"math/bits"
)

// Unit is what a time counts that is a number.
type Unit string

// The units.
const (
	Seconds Unit = "s"
	Millis  Unit = "ms"
	Micros  Unit = "us"
	Nanos   Unit = "ns"
)

// Units lists the units.
func Units() []string {
	return []string{string(Seconds), string(Millis), string(Micros), string(Nanos)}
}

// exponent is the power of ten that makes µs of the unit.
func (u Unit) exponent() int {
	return map[Unit]int{Seconds: 6, Millis: 3, Micros: 0, Nanos: -3}[u]
}

// name is the unit in words.
func (u Unit) name() string {
	return map[Unit]string{Seconds: "seconds", Millis: "milliseconds", Micros: "microseconds", Nanos: "nanoseconds"}[u]
}

// maxTime is the first µs that no limiter computes exactly any more, in the year 2112.
const maxTime = 1 << 52

// What can be wrong with a time.
const (
	wrongTime  = "time: neither RFC 3339 nor [day/month/year:...] nor a Unix time"
	wrongZone  = "time: without a zone"
	wrongUnit  = "time: a number of an unknown unit"
	wrongRange = "time: before 1970 or after 2112"
)

// parseTime reads a time in one of three forms that cannot be taken for one another, cut to µs: RFC 3339 and what else
// ISO 8601 allows of that form, the form of the combined log, and a Unix time in the unit given.
func parseTime(text []byte, unit Unit) (us int64, wrong string) {
	switch {
	case len(text) > 10 && text[4] == '-':
		us, wrong = parseRFC3339(text)
	case len(text) > 10 && text[2] == '/':
		us, wrong = parseCombinedTime(text)
	default:
		n, ok := parseNumber(bytes.TrimPrefix(text, []byte("-")))
		switch {
		case ok && text[0] == '-':
			return 0, wrongRange
		case !ok:
			return 0, wrongTime
		case unit == "":
			return 0, wrongUnit
		}
		us, wrong = n.micros(unit)
	}
	if wrong == "" && (us < 0 || us >= maxTime) {
		return 0, wrongRange
	}
	return us, wrong
}

// parseRFC3339 reads 2026-11-30T06:58:52.123456Z, also with a space or a small letter, with a comma for the point, and with
// an offset for the Z: +01:00, +0100 or +01, which may stand behind a space.
func parseRFC3339(b []byte) (us int64, wrong string) {
	if len(b) < len("2026-11-30T06:58:52") || b[7] != '-' || b[10] != 'T' && b[10] != 't' && b[10] != ' ' || b[13] != ':' || b[16] != ':' {
		return 0, wrongTime
	}
	us, ok := civil(number(b[0:4]), number(b[5:7]), number(b[8:10]), number(b[11:13]), number(b[14:16]), number(b[17:19]))
	if !ok {
		return 0, wrongTime
	}
	b = b[19:]
	if len(b) > 0 && (b[0] == '.' || b[0] == ',') {
		fraction, digits := fraction(b[1:])
		if digits == 0 {
			return 0, wrongTime
		}
		us, b = us+fraction, b[1+digits:]
	}
	if len(b) > 1 && b[0] == ' ' {
		b = b[1:]
	}
	switch {
	case len(b) == 0:
		return 0, wrongZone
	case len(b) == 1 && (b[0] == 'Z' || b[0] == 'z'):
		return us, ""
	case len(b) == len("+00:00") && b[3] == ':':
		return shift(us, b[0], number(b[1:3]), number(b[4:6]))
	case len(b) == len("+0000"):
		return shift(us, b[0], number(b[1:3]), number(b[3:5]))
	case len(b) == len("+00"):
		return shift(us, b[0], number(b[1:3]), 0)
	}
	return 0, wrongTime
}

// fraction reads the digits at the start of b as millionths, cut.
func fraction(b []byte) (us int64, digits int) {
	worth := int64(100_000)
	for digits < len(b) && b[digits] >= '0' && b[digits] <= '9' {
		us += int64(b[digits]-'0') * worth
		worth /= 10
		digits++
	}
	return us, digits
}

// parseCombinedTime reads 30/Nov/2026:06:58:52 +0000.
func parseCombinedTime(b []byte) (us int64, wrong string) {
	if len(b) != len("30/Nov/2026:06:58:52 +0000") {
		if len(b) == len("30/Nov/2026:06:58:52") {
			return 0, wrongZone
		}
		return 0, wrongTime
	}
	if b[6] != '/' || b[11] != ':' || b[14] != ':' || b[17] != ':' || b[20] != ' ' {
		return 0, wrongTime
	}
	month := bytes.Index([]byte("JanFebMarAprMayJunJulAugSepOctNovDec"), b[3:6])
	if month < 0 || month%3 != 0 {
		return 0, wrongTime
	}
	us, ok := civil(number(b[7:11]), month/3+1, number(b[0:2]), number(b[12:14]), number(b[15:17]), number(b[18:20]))
	if !ok {
		return 0, wrongTime
	}
	return shift(us, b[21], number(b[22:24]), number(b[24:26]))
}

// shift takes an offset from UTC off.
func shift(us int64, sign byte, hours, minutes int) (int64, string) {
	if hours < 0 || hours > 23 || minutes < 0 || minutes > 59 {
		return 0, wrongTime
	}
	offset := int64(hours*60+minutes) * 60_000_000
	switch sign {
	case '+':
		return us - offset, ""
	case '-':
		return us + offset, ""
	}
	return 0, wrongTime
}

// number reads digits, -1 if there is anything else.
func number(b []byte) (n int) {
	for _, c := range b {
		if c < '0' || c > '9' {
			return -1
		}
		n = n*10 + int(c-'0')
	}
	return n
}

// civil is a time of the Gregorian calendar in UTC as µs since the epoch.
func civil(year, month, day, hour, minute, second int) (us int64, ok bool) {
	if year < 0 || month < 1 || month > 12 || day < 1 || day > daysIn(year, month) ||
		hour < 0 || hour > 23 || minute < 0 || minute > 59 || second < 0 || second > 59 {
		return 0, false
	}
	if month <= 2 { // the year begins in March, so that leap days come last
		year, month = year-1, month+12
	}
	days := 365*year + year/4 - year/100 + year/400 + (153*(month-3)+2)/5 + day - 1 - 719468
	return int64(((days*24+hour)*60+minute)*60+second) * 1_000_000, true
}

func daysIn(year, month int) int {
	switch month {
	case 4, 6, 9, 11:
		return 30
	case 2:
		if year%4 == 0 && (year%100 != 0 || year%400 == 0) {
			return 29
		}
		return 28
	}
	return 31
}

// decimal is digits times ten to a power, not negative.
type decimal struct {
	digits   uint64
	exponent int
	whole    int // digits before the point
}

// parseNumber reads a number as JSON writes it. Digits of a fraction that do not fit are cut.
func parseNumber(b []byte) (d decimal, ok bool) {
	i := 0
	for ; i < len(b) && isDigit(b[i]); i++ {
		hi, lo := bits.Mul64(d.digits, 10)
		sum, carry := bits.Add64(lo, uint64(b[i]-'0'), 0)
		if hi+carry > 0 {
			return d, false
		}
		d.digits = sum
	}
	d.whole = i
	if i == 0 {
		return d, false
	}
	if i < len(b) && b[i] == '.' {
		from := i + 1
		for i = from; i < len(b) && isDigit(b[i]); i++ {
			if d.digits < 1e18 {
				d.digits = d.digits*10 + uint64(b[i]-'0')
				d.exponent--
			}
		}
		if i == from {
			return d, false
		}
	}
	if i < len(b) && (b[i] == 'e' || b[i] == 'E') {
		e, ok := parseExponent(b[i+1:])
		d.exponent, d.whole = d.exponent+e, d.whole+e
		return d, ok
	}
	return d, i == len(b)
}

func parseExponent(b []byte) (e int, ok bool) {
	sign := 1
	if len(b) > 0 && (b[0] == '+' || b[0] == '-') {
		if b[0] == '-' {
			sign = -1
		}
		b = b[1:]
	}
	if len(b) == 0 || len(b) > 3 || number(b) < 0 {
		return 0, false
	}
	return sign * number(b), true
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// micros is the number as a time in µs, cut.
func (d decimal) micros(unit Unit) (us int64, wrong string) {
	n := d.digits
	for e := d.exponent + unit.exponent(); e != 0 && n != 0; {
		if e < 0 {
			n, e = n/10, e+1
			continue
		}
		if n >= maxTime {
			return 0, wrongRange
		}
		n, e = n*10, e-1
	}
	if n >= maxTime {
		return 0, wrongRange
	}
	return int64(n), ""
}

// unit is the one in which the number is a time from 2001 to 2286, if it is in one.
func (d decimal) unit() (u Unit, ok bool) {
	u, ok = map[int]Unit{10: Seconds, 13: Millis, 16: Micros, 19: Nanos}[d.whole]
	return u, ok && d.digits != 0
}
