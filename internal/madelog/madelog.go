// Package madelog makes access logs from a seed, and says of each request what a reader must find, so that a reader and
// what comes after it can be held against something that they did not say themselves.
//
// Clients differ as they do on the web: the n-th asks about 1/n as often as the first. Some requests come at one instant,
// some clients burst, some ids and costs are odd. On the way lie broken lines and lines that are late.
package madelog

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/rlctl/rlctl/pkg/accesslog"
)

// Plan is a log to be made. The same plan makes the same log.
type Plan struct {
	Format   accesslog.Format
	Seed     uint64
	Requests int           // in their order
	Span     time.Duration // over which they are spread, about
	Late     int           // further lines, about, with a time before that of a line before
	Broken   int           // further lines, about, that are none of the format
}

// Request is what a reader must find, and nothing else.
type Request struct {
	At   int64 // µs since the epoch
	Key  string
	Cost int64
}

// Counts are how many lines of a kind there are.
type Counts struct{ Requests, Late, Broken int64 }

// Fields are those of a log of the format, to read it by.
func Fields(f accesslog.Format) accesslog.Spec {
	if f.IsCombined() {
		return accesslog.Spec{Format: f, Fixed: 1}
	}
	return accesslog.Spec{Format: f, Time: "time", Key: "client", Cost: "cost", Unit: accesslog.Micros}
}

const start = 1_700_000_000_123_456 // µs: in the middle of every window

// Write writes the log, and calls each with every request.
func (p Plan) Write(w io.Writer, each func(Request)) (c Counts, err error) {
	out := bufio.NewWriterSize(w, 1<<16)
	if p.Format == accesslog.CSV {
		out.WriteString("time,client,method,path,status,bytes,cost\n")
	}
	m := maker{Plan: p, rnd: rand.New(rand.NewPCG(p.Seed, 1)), at: start}
	m.zipf = rand.NewZipf(m.rnd, 1.07, 3, uint64(max(10, p.Requests/20)))
	for c.Requests < int64(p.Requests) {
		r := m.next()
		out.WriteString(m.line(r))
		each(m.found(r))
		c.Requests++
		if m.once(p.Late) {
			late := m.request()
			late.At = r.At - int64(2+m.rnd.IntN(10))*1_000_000
			out.WriteString(m.line(late))
			c.Late++
		}
		if m.once(p.Broken) {
			whole := m.line(m.request())
			out.WriteString(whole[:len(whole)/2] + "\n")
			c.Broken++
		}
	}
	return c, out.Flush() // which tells of all that went wrong before
}

type maker struct {
	Plan
	rnd   *rand.Rand
	zipf  *rand.Zipf
	at    int64
	burst Request // its client
	left  int     // of the burst
}

// once tells, as often as n of all requests.
func (m *maker) once(n int) bool { return m.rnd.IntN(m.Requests) < n }

// next is the next request in the order of time.
func (m *maker) next() Request {
	gap := float64(m.Span.Microseconds()) / float64(m.Requests)
	switch {
	case m.left > 0:
		m.left--
		m.at += int64(m.rnd.ExpFloat64() * gap / 50)
		r := m.request()
		r.Key = m.burst.Key
		r.At = m.at
		return r
	case m.rnd.IntN(4) > 0: // else it comes together with the one before
		m.at += int64(m.rnd.ExpFloat64() * gap * 1.5)
	}
	r := m.request()
	if m.rnd.IntN(400) == 0 {
		m.burst, m.left = r, 10+m.rnd.IntN(100)
	}
	return r
}

// request is one of some client, now.
func (m *maker) request() Request {
	r := Request{At: m.at, Key: m.client(m.zipf.Uint64()), Cost: 1}
	switch dice := m.rnd.IntN(10_000); {
	case dice == 0:
		r.Cost = 1_000_000 // never
	case dice < 50:
		r.Cost = 0
	case dice < 500:
		r.Cost = int64(2 + m.rnd.IntN(5))
	}
	return r
}

// client is the id of the n-th client. The combined format has room for an address only.
func (m *maker) client(n uint64) string {
	if n%50 == 7 && !m.Format.IsCombined() {
		return fmt.Sprintf("}x \"%d\", \\ é", n)
	}
	return fmt.Sprintf("10.%d.%d.%d", n>>16&255, n>>8&255, n&255)
}

// found is what the format tells of a request: the combined one whole seconds and no cost.
func (m *maker) found(r Request) Request {
	if m.Format.IsCombined() {
		r.At, r.Cost = r.At/1_000_000*1_000_000, 1
	}
	return r
}

// line is a request as the log has it.
func (m *maker) line(r Request) string {
	path := "/v1/items/" + fmt.Sprint(m.rnd.IntN(100_000))
	at := time.UnixMicro(r.At).UTC()
	switch m.Format {
	case accesslog.JSON:
		client, _ := json.Marshal(r.Key) // a string has a form in JSON
		return fmt.Sprintf(`{"level":"info","time":"%s","client":%s,"request":{"method":"GET","path":"%s","bytes":%d},"status":200,"cost":%d}`+"\n",
			at.Format("2006-01-02T15:04:05.000000Z07:00"), client, path, m.rnd.IntN(10_000), r.Cost)
	case accesslog.CSV:
		key := r.Key
		if strings.Contains(key, `"`) {
			key = `"` + strings.ReplaceAll(key, `"`, `""`) + `"`
		}
		return fmt.Sprintf("%d,%s,GET,%s,200,%d,%d\n", r.At, key, path, m.rnd.IntN(10_000), r.Cost)
	}
	host := ""
	if m.Format == accesslog.VHost {
		host = "api.example.org:443 "
	}
	return fmt.Sprintf("%s%s - - [%s] \"GET %s HTTP/1.1\" 200 %d \"https://example.org/\" \"Mozilla/5.0 (X11; Linux x86_64)\"\n",
		host, r.Key, at.Format("02/Jan/2006:15:04:05 -0700"), path, m.rnd.IntN(10_000))
}
