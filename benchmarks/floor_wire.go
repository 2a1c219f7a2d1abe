package main

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// floorWire is a connection to one server, and what its answers mean to a floor.
type floorWire struct {
	net.Conn
	in *bufio.Reader
}

// floorCommands are the commands of a floor, but for the key.
type floorCommands struct {
	renew, release string // SHA-1
	unfenced       bool
}

// dialFloor connects to all servers, chooses this library's database, and loads
// the scripts.
func dialFloor(s site) ([]*floorWire, *floorCommands, error) {
	renew, release := protocol.Renew, protocol.Release
	var wires []*floorWire
	for _, addr := range s.addrs {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return nil, nil, errors.Join(err, closeWires(wires))
		}
		w := &floorWire{conn, bufio.NewReaderSize(conn, 64<<10)}
		wires = append(wires, w)
		if err := w.load(s.database(), renew.Text().(string), release.Text().(string)); err != nil {
			return nil, nil, errors.Join(err, closeWires(wires))
		}
	}
	return wires, &floorCommands{renew: renew.SHA().(string), release: release.SHA().(string)}, nil
}

func closeWires(wires []*floorWire) error {
	var err error
	for _, w := range wires {
		err = errors.Join(err, w.Close())
	}
	return err
}

// load also sets the counter that an acquire counts on.
func (w *floorWire) load(database string, scripts ...string) error {
	commands := appendCommand(nil, "SELECT", strings.TrimPrefix(database, "/"))
	commands = appendCommand(commands, "HSETNX", floorRecord, "0", "1")
	for _, script := range scripts {
		commands = appendCommand(commands, "SCRIPT", "LOAD", script)
	}
	if _, err := w.Write(commands); err != nil {
		return err
	}
	for range len(scripts) + 2 {
		if _, err := w.answer(); err != nil {
			return err
		}
	}
	return nil
}

// appendAcquire appends the library's commands for a lock without waiters: four commands, or
// one without a token.
func (c *floorCommands) appendAcquire(to []byte, key string) []byte {
	if c.unfenced {
		return appendCommand(to, "SET", key, floorOwner, "PX", floorTTL, "NX", "GET")
	}
	to = appendCommand(to, "SET", key, floorOwner, "PX", floorTTL, "NX")
	to = appendCommand(to, "HINCRBY", floorRecord, "0", "1")
	to = appendCommand(to, "ZCARD", "redlock::queue:"+key)
	return appendCommand(to, "GET", key)
}

// acquireAnswers is how many answers an acquire gets; the others get one.
func (c *floorCommands) acquireAnswers() int {
	if c.unfenced {
		return unfencedAnswers
	}
	return 4
}

// unfencedAnswers stands for the one answer to SET with GET: the holder before, so nil means
// yes.
const unfencedAnswers = -1

func (c *floorCommands) appendRenew(to []byte, key string) []byte {
	return appendCommand(to, "EVALSHA", c.renew, "2", key, floorRecord, floorOwner, floorTTL, "2")
}

func (c *floorCommands) appendRelease(to []byte, key string) []byte {
	return appendCommand(to, "EVALSHA", c.release, "3", key, "redlock::queue:"+key, "redlock::readers:"+key, floorOwner)
}

// answers reads the replies to one call. The first shows whether it was granted.
func (w *floorWire) answers(n int) (bool, error) {
	yes, err := w.answer()
	if n == unfencedAnswers {
		return !yes, err
	}
	for range n - 1 {
		if err == nil {
			_, err = w.answer()
		}
	}
	return yes, err
}

// answer reads one reply, and reports whether it is a number above 0 or a string: then the
// command did what was asked. Refusals are nil, 0 or an array.
func (w *floorWire) answer() (bool, error) {
	line, err := w.line()
	if err != nil {
		return false, err
	}
	switch line[0] {
	case '+':
		return true, nil
	case ':':
		return line[1] != '0' && line[1] != '-', nil
	case '$':
		n, _ := strconv.Atoi(string(line[1:]))
		if n < 0 {
			return false, nil
		}
		_, err := w.in.Discard(n + 2)
		return true, err
	case '*':
		n, _ := strconv.Atoi(string(line[1:]))
		for range n {
			if _, err := w.answer(); err != nil {
				return false, err
			}
		}
		return false, nil
	}
	return false, fmt.Errorf("floor: unexpected answer %q", line)
}

// line is good until the next one is read.
func (w *floorWire) line() ([]byte, error) {
	line, err := w.in.ReadSlice('\n')
	if err != nil {
		return nil, err
	}
	if len(line) < 4 {
		return nil, fmt.Errorf("floor: unexpected answer %q", line)
	}
	return line[:len(line)-2], nil
}
