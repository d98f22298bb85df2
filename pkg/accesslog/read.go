package accesslog

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"io"
	"runtime"
)

// MaxLine is the longest line that is read, in bytes. Longer ones are broken.
const MaxLine = 1 << 20

const blockSize = 256 << 10

const wrongLength = "longer than 1 MiB"

// block is whole lines of the log.
type block struct {
	data   []byte
	first  int64 // line of the log, from 1
	bytes  int64 // of the log, with what was left out
	long   bool  // the first line was too long, and is not in data
	parsed chan *Batch
}

// Each reads the log once, and calls yield with batch after batch in the order of the log. It ends with the log, with the
// first error of reading or of yield, or with the context, whose cause it then returns.
func (l *Log) Each(ctx context.Context, yield func(*Batch) error) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parsers := runtime.GOMAXPROCS(0)
	work, order := make(chan *block, parsers), make(chan *block, 2*parsers)
	ended := make(chan error, 1)
	go func() {
		ended <- l.cut(func(b *block) bool { return send(ctx, order, b) && send(ctx, work, b) })
		close(order)
		close(work)
	}()
	for range parsers {
		p := l.parse
		go func() {
			for b := range work {
				b.parsed <- p.block(b)
			}
		}()
	}
	for {
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case b, more := <-order:
			switch {
			case ctx.Err() != nil:
				return context.Cause(ctx)
			case !more:
				return <-ended
			}
			if err := yield(<-b.parsed); err != nil {
				return err
			}
		}
	}
}

func send(ctx context.Context, to chan<- *block, b *block) bool {
	select {
	case to <- b:
		return true
	case <-ctx.Done():
		return false
	}
}

// cut cuts the log into blocks at the ends of lines, until take wants no more. It takes what there is to read, so that a
// pipe that is slow is not waited for.
func (l *Log) cut(take func(*block) bool) error {
	buffer, held := make([]byte, blockSize), 0
	for line := int64(1); ; {
		n, err := l.in.Read(buffer[held:])
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		held += n
		b := &block{first: line, bytes: int64(n), parsed: make(chan *Batch, 1)}
		end := bytes.LastIndexByte(buffer[:held], '\n') + 1
		switch {
		case err != nil:
			end = held
		case end == 0 && held > MaxLine:
			dropped, err := dropLine(l.in)
			if err != nil {
				return err
			}
			b.long, b.bytes, held = true, b.bytes+dropped, 0
		case end == 0:
			if held == len(buffer) {
				buffer = append(buffer, make([]byte, len(buffer))...)
			}
		}
		b.data = bytes.Clone(buffer[:end])
		held = copy(buffer, buffer[end:held])
		line += b.lines()
		if !take(b) || err != nil {
			return nil
		}
	}
}

// dropLine reads up to the end of a line and returns how many bytes that was.
func dropLine(in *bufio.Reader) (dropped int64, err error) {
	for {
		part, err := in.ReadSlice('\n')
		dropped += int64(len(part))
		switch {
		case err == nil || errors.Is(err, io.EOF):
			return dropped, nil
		case !errors.Is(err, bufio.ErrBufferFull):
			return dropped, err
		}
	}
}

// lines is how many lines of the log a block stands for.
func (b *block) lines() int64 {
	n := int64(bytes.Count(b.data, []byte("\n")))
	if len(b.data) > 0 && b.data[len(b.data)-1] != '\n' {
		n++
	}
	if b.long {
		n++
	}
	return n
}

// block parses a block.
func (p *parser) block(b *block) *Batch {
	batch := &Batch{Bytes: b.bytes}
	fault := func(reason string) { batch.Faults = append(batch.Faults, Fault{b.first + batch.Lines - 1, reason}) }
	if b.long {
		batch.Lines++
		fault(wrongLength)
	}
	batch.Records = make([]Record, 0, bytes.Count(b.data, []byte("\n"))+1)
	for rest := b.data; len(rest) > 0; {
		var line []byte
		line, rest, _ = bytes.Cut(rest, []byte("\n"))
		batch.Lines++
		n := b.first + batch.Lines - 1
		line = bytes.TrimSuffix(line, []byte("\r"))
		switch {
		case n <= p.skip || space(line, 0) == len(line):
			batch.Blank++
			continue
		case len(line) > MaxLine:
			fault(wrongLength)
			continue
		}
		r := Record{Line: n}
		if wrong := p.parse(line, &r); wrong != "" {
			fault(wrong)
			continue
		}
		batch.Records = append(batch.Records, r)
	}
	return batch
}
