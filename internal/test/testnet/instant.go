package testnet

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strconv"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// InstantPools returns pools of n servers that answer at once, do nothing, and allocate nothing. So what is
// measured is what the library itself costs, with the encoder of commands and the decoder of replies. The
// servers' counters are great, as those of servers in use are.
func InstantPools(n int) []redlock.Pool {
	pools := make([]redlock.Pool, n)
	for i := range pools {
		dial := func(context.Context) (net.Conn, error) {
			c := &instantConn{count: 1_000_000}
			c.changed.L = &c.mu
			return c, nil
		}
		pools[i] = redlock.DialPool(dial, redlock.DialConfig{Addr: "instant-" + strconv.Itoa(i)})
	}
	return pools
}

// instantConn is a socket with a server at its other end.
type instantConn struct {
	net.Conn // nil: the methods that are missing are not called

	mu      sync.Mutex // protects what follows
	changed sync.Cond
	out     []byte // replies that are not read yet
	owner   []byte // of the last SET
	count   int64
	closed  bool
}

// Write executes the commands of p, which are whole.
func (c *instantConn) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for rest := p; len(rest) > 0; {
		var n int
		n, rest = header(rest)
		var args [3][]byte // the first ones
		for i := range n {
			var arg []byte
			if arg, rest = argument(rest); i < len(args) {
				args[i] = arg
			}
		}
		if string(args[1]) == protocol.Look.SHA().(string) {
			c.out = append(c.out, "$6\r\nlooked\r\n"...)
		} else {
			c.answer(string(args[0]), args[2])
		}
	}
	c.changed.Broadcast()
	return len(p), nil
}

// answer executes a command. One is a grant, a renewal and a release.
func (c *instantConn) answer(command string, second []byte) {
	switch command {
	case "INFO":
		info := fmt.Sprintf("run_id:%p\r\nrole:master\r\n", c)
		c.out = fmt.Appendf(c.out, "$%d\r\n%s\r\n", len(info), info)
	case "TIME":
		c.out = append(c.out, "*2\r\n$10\r\n1700000000\r\n$1\r\n0\r\n"...)
	case "PING":
		c.out = append(c.out, "+PONG\r\n"...)
	case "SET":
		c.owner = append(c.owner[:0], second...)
		c.out = append(c.out, "+OK\r\n"...)
	case "GET":
		c.out = append(strconv.AppendInt(append(c.out, '$'), int64(len(c.owner)), 10), "\r\n"...)
		c.out = append(append(c.out, c.owner...), "\r\n"...)
	case "ZCARD":
		c.out = append(c.out, ":0\r\n"...)
	case "HINCRBY":
		c.count++
		c.out = append(strconv.AppendInt(append(c.out, ':'), c.count, 10), "\r\n"...)
	default:
		c.out = append(c.out, ":1\r\n"...)
	}
}

// header reads how many arguments a command has.
func header(p []byte) (n int, rest []byte) {
	line, rest, _ := bytes.Cut(p, []byte("\r\n"))
	for _, digit := range line[1:] {
		n = 10*n + int(digit-'0')
	}
	return n, rest
}

// argument reads an argument.
func argument(p []byte) (arg, rest []byte) {
	n, rest := header(p)
	return rest[:n], rest[n+len("\r\n"):]
}

// Read waits for replies.
func (c *instantConn) Read(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for len(c.out) == 0 {
		if c.closed {
			return 0, io.EOF
		}
		c.changed.Wait()
	}
	n := copy(p, c.out)
	c.out = c.out[:copy(c.out, c.out[n:])]
	return n, nil
}

// Close ends Read.
func (c *instantConn) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closed = true
	c.changed.Broadcast()
	return nil
}

// SetReadDeadline does nothing: each command is answered at once.
func (c *instantConn) SetReadDeadline(time.Time) error { return nil }
