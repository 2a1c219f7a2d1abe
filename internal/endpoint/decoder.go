package endpoint

import (
	"bytes"
	"fmt"
	"io"
	"math"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// Bounds of one reply, nested replies included. The library asks for nothing that comes near them. A server
// that exceeds one is broken, or is no Redis server.
const (
	maxBytes    = 64 << 20 // of text
	maxElements = 1 << 20  // of arrays
	maxDepth    = 8        // arrays within arrays
	maxLine     = 64 << 10 // bytes up to the end of a line
)

const (
	bufferSize    = 4 << 10
	firstElements = 64       // an array has room for so many before they have come
	firstBytes    = 64 << 10 // the same of a bulk string
	maxInPlace    = 512      // bytes of a text that is read where it is
)

// BadReplyError is why a connection ended: the server sent what is no reply, or a reply beyond the bounds. It never
// repeats what the server sent, which can be a password.
type BadReplyError struct{ what string }

func (e *BadReplyError) Error() string { return "the server's reply is wrong: " + e.what }

func badReply(format string, args ...any) error { return &BadReplyError{fmt.Sprintf(format, args...)} }

// A decoder reads replies of RESP2 and makes the values that redigo makes: int64, []byte, string of a status,
// redis.Error, nil, and []any of these. It makes no room for what has not come, so a reply costs no more than
// a few times what the server has sent of it. One goroutine uses it.
type decoder struct {
	from    io.Reader
	buf     []byte
	at, end int // buf[at:end] is not decoded yet

	bytes, elements int // how many of each the present reply can still have
}

func newDecoder(from io.Reader) *decoder {
	return &decoder{from: from, buf: make([]byte, bufferSize)}
}

// decode reads the next reply. An error reply is a value of type redis.Error. With an error the stream is
// broken, and decode must not be called again. It returns io.EOF only between two replies.
func (d *decoder) decode(r *pipe.Reply) error {
	d.bytes, d.elements = maxBytes, maxElements
	if err := d.await(1); err != nil {
		return err
	}
	err := d.whole(r)
	if err == io.EOF {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// whole decodes a reply that is no part of another one. It allocates nothing for an integer, or a short text.
func (d *decoder) whole(r *pipe.Reply) error {
	kind := d.buf[d.at]
	if kind != ':' && kind != '$' {
		value, err := d.value(0)
		r.Set(value)
		return err
	}
	d.at++
	line, err := d.line()
	if err != nil {
		return err
	}
	if kind == ':' {
		n, err := integer(line)
		r.SetInteger(n)
		return err
	}
	n, err := length(line)
	if err != nil {
		return err
	}
	if n < 0 || n > maxInPlace {
		value, err := d.bulk(n)
		r.Set(value)
		return err
	}
	if err := d.await(n + 2); err != nil {
		return err
	}
	r.SetText(d.buf[d.at : d.at+n])
	d.at += n
	return d.endLine()
}

// Frequent statuses, which are not allocated anew.
var statusOK, statusPong any = "OK", "PONG"

// value decodes a reply within so many arrays.
func (d *decoder) value(depth int) (any, error) {
	if err := d.await(1); err != nil {
		return nil, err
	}
	kind := d.buf[d.at]
	switch kind { // ahead of the line, which may never end if this is no reply
	case ':', '$', '*', '+', '-':
	default:
		return nil, badReply("it begins with %q, as no reply of a Redis server does: is this a Redis server, and does it speak TLS?", kind)
	}
	d.at++
	rest, err := d.line()
	if err != nil {
		return nil, err
	}
	switch kind {
	case ':':
		n, err := integer(rest)
		return n, err
	case '$':
		n, err := length(rest)
		if err != nil {
			return nil, err
		}
		return d.bulk(n)
	case '*':
		return d.array(rest, depth)
	default:
		if d.bytes -= len(rest); d.bytes < 0 {
			return nil, errTooManyBytes()
		}
		switch {
		case kind == '-':
			return redis.Error(rest), nil
		case string(rest) == "OK":
			return statusOK, nil
		case string(rest) == "PONG":
			return statusPong, nil
		}
		return string(rest), nil
	}
}

// line returns what is left of the line, without its end. It is valid until the next read.
func (d *decoder) line() ([]byte, error) {
	for seen := 0; ; {
		if i := bytes.IndexByte(d.buf[d.at+seen:d.end], '\n'); i >= 0 {
			line := d.buf[d.at : d.at+seen+i]
			d.at += len(line) + 1
			if len(line) == 0 || line[len(line)-1] != '\r' {
				return nil, badReply("a line that does not end with CR and LF")
			}
			return line[:len(line)-1], nil
		}
		if seen = d.end - d.at; seen >= maxLine {
			return nil, badReply("a line of more than %d bytes", maxLine)
		}
		if err := d.fill(); err != nil {
			return nil, err
		}
	}
}

// await reads until n bytes are there.
func (d *decoder) await(n int) error {
	for d.end-d.at < n {
		if err := d.fill(); err != nil {
			return err
		}
	}
	return nil
}

// fill reads more bytes behind those that are not decoded yet, and makes room for them.
func (d *decoder) fill() error {
	if d.at > 0 {
		d.end = copy(d.buf, d.buf[d.at:d.end])
		d.at = 0
	}
	if d.end == len(d.buf) {
		d.buf = append(d.buf, make([]byte, len(d.buf))...)
	}
	n, err := d.from.Read(d.buf[d.end:])
	d.end += n
	if n > 0 {
		return nil // an error comes again with the next read
	}
	if err == nil {
		err = io.ErrNoProgress
	}
	return err
}

// bulk decodes a text of n bytes; -1 is a null.
func (d *decoder) bulk(n int) (any, error) {
	if n < 0 {
		return nil, nil
	}
	if d.bytes -= n; d.bytes < 0 {
		return nil, errTooManyBytes()
	}
	text := make([]byte, min(n, max(firstBytes, d.end-d.at)))
	for got := 0; ; {
		k := copy(text[got:], d.buf[d.at:d.end])
		d.at += k
		if got += k; got < len(text) {
			k, err := io.ReadFull(d.from, text[got:])
			if err != nil {
				return nil, err
			}
			got += k
		}
		if got == n {
			break
		}
		text = append(text, make([]byte, min(got, n-got))...)
	}
	return text, d.endLine()
}

// endLine reads the end of a text.
func (d *decoder) endLine() error {
	if err := d.await(2); err != nil {
		return err
	}
	if string(d.buf[d.at:d.at+2]) != "\r\n" {
		return badReply("a text longer than its length")
	}
	d.at += 2
	return nil
}

// array decodes the replies whose number the line has, within so many arrays.
func (d *decoder) array(line []byte, depth int) (any, error) {
	n, err := length(line)
	switch {
	case n < 0 || err != nil:
		return nil, err
	case depth == maxDepth:
		return nil, badReply("arrays within more than %d arrays", maxDepth)
	}
	if d.elements -= n; d.elements < 0 {
		return nil, badReply("arrays of more than %d elements in all", maxElements)
	}
	all := make([]any, 0, min(n, firstElements))
	for range n {
		element, err := d.value(depth + 1)
		if err != nil {
			return nil, err
		}
		all = append(all, element)
	}
	return all, nil
}

// length reads the length of a bulk string or an array; -1 is that of a null.
func length(digits []byte) (int, error) {
	if string(digits) == "-1" {
		return -1, nil
	}
	if len(digits) == 0 {
		return 0, badReply("a length without digits")
	}
	n := 0
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return 0, badReply("a length that is no number")
		}
		if n = 10*n + int(digit-'0'); n > maxBytes {
			return 0, badReply("a length above %d", maxBytes)
		}
	}
	return n, nil
}

// integer reads an integer reply.
func integer(text []byte) (int64, error) {
	digits, negative := text, false
	if len(digits) > 0 && digits[0] == '-' {
		digits, negative = digits[1:], true
	}
	if len(digits) == 0 {
		return 0, badReply("an integer without digits")
	}
	n := uint64(0)
	for _, digit := range digits {
		if digit < '0' || digit > '9' {
			return 0, badReply("an integer that is no number")
		}
		if n > math.MaxInt64/10 {
			return 0, badReply("an integer of more than 64 bits")
		}
		n = 10*n + uint64(digit-'0')
	}
	switch {
	case negative && n <= -math.MinInt64:
		return -int64(n), nil
	case !negative && n <= math.MaxInt64:
		return int64(n), nil
	}
	return 0, badReply("an integer of more than 64 bits")
}

func errTooManyBytes() error { return badReply("texts of more than %d bytes in all", maxBytes) }

func errUnasked() error { return badReply("data that was not asked for") }
