package main

import (
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// link is a way to a server that can be long, stop, or be cut: a proxy within
// this process. It also counts the commands that go through it.
type link struct {
	addr   string // where it listens
	target string // the server

	oneWay   atomic.Int64 // delay in each direction, ns
	commands atomic.Int64 // sent by clients

	mu       sync.Mutex // protects what follows
	listener net.Listener
	conns    map[net.Conn]bool
	thawed   chan struct{} // closed unless frozen
	group    sync.WaitGroup
}

// openLink opens a way to target on which a round trip takes rtt longer.
func openLink(target string, rtt time.Duration) (*link, error) {
	l := &link{target: target, addr: "127.0.0.1:0", conns: make(map[net.Conn]bool), thawed: make(chan struct{})}
	close(l.thawed)
	l.delay(rtt)
	return l, l.revive()
}

// openLinks opens a way to each target; rtts may be shorter, for none.
func openLinks(targets []string, rtts ...time.Duration) ([]*link, error) {
	var links []*link
	for i, target := range targets {
		var rtt time.Duration
		if i < len(rtts) {
			rtt = rtts[i]
		}
		l, err := openLink(target, rtt)
		if err != nil {
			closeLinks(links)
			return nil, err
		}
		links = append(links, l)
	}
	return links, nil
}

func closeLinks(links []*link) {
	for _, l := range links {
		l.close()
	}
}

func addrsOf(links []*link) []string {
	addrs := make([]string, len(links))
	for i, l := range links {
		addrs[i] = l.addr
	}
	return addrs
}

// delay sets what a round trip takes longer, from now on.
func (l *link) delay(rtt time.Duration) { l.oneWay.Store(int64(rtt / 2)) }

// freeze lets nothing through until thaw; connections can be made all the same,
// as to a process that was stopped.
func (l *link) freeze() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
		l.thawed = make(chan struct{})
	default:
	}
}

// thaw lets through what has waited, and all that follows.
func (l *link) thaw() {
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-l.thawed:
	default:
		close(l.thawed)
	}
}

// cut ends all connections and refuses new ones, as a server that is dead.
func (l *link) cut() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener == nil {
		return
	}
	_ = l.listener.Close()
	l.listener = nil
	for c := range l.conns {
		_ = c.Close()
	}
}

// revive listens again where it did before.
func (l *link) revive() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.listener != nil {
		return nil
	}
	listener, err := net.Listen("tcp", l.addr)
	if err != nil {
		return err
	}
	l.listener, l.addr = listener, listener.Addr().String()
	l.group.Go(func() { l.accept(listener) })
	return nil
}

// close ends the link and returns when its goroutines have ended.
func (l *link) close() {
	l.thaw()
	l.cut()
	l.group.Wait()
}

func (l *link) accept(listener net.Listener) {
	for {
		client, err := listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", l.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		if !l.keep(listener, client, server) {
			return
		}
		count := &commandCounter{total: &l.commands}
		l.group.Go(func() { l.pump(server, client, count.read) })
		l.group.Go(func() { l.pump(client, server, func([]byte) {}) })
	}
}

// keep records the connections for cut; it returns false if the link was cut meanwhile.
func (l *link) keep(listener net.Listener, conns ...net.Conn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		if l.listener != listener {
			_ = c.Close()
			continue
		}
		l.conns[c] = true
	}
	return l.listener == listener
}

func (l *link) drop(conns ...net.Conn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range conns {
		_ = c.Close()
		delete(l.conns, c)
	}
}

// chunk is something on its way.
type chunk struct {
	bytes []byte
	due   time.Time
}

// pump carries from one end to the other until one of them is closed: a reader
// and, behind the delay, a writer.
func (l *link) pump(to, from net.Conn, see func([]byte)) {
	way := make(chan chunk, 1024)
	l.group.Go(func() {
		defer l.drop(to, from)
		for c := range way {
			if wait := time.Until(c.due); wait > 0 {
				time.Sleep(wait)
			}
			<-l.gate()
			if _, err := to.Write(c.bytes); err != nil {
				break
			}
		}
		_ = from.Close() // the reader ends
		for range way {  // and what it still brings is lost
		}
	})
	defer close(way)
	for {
		buffer := make([]byte, 16<<10)
		n, err := from.Read(buffer)
		if n > 0 {
			see(buffer[:n])
			way <- chunk{buffer[:n], time.Now().Add(time.Duration(l.oneWay.Load()))}
		}
		if err != nil {
			return
		}
	}
}

// gate is closed while the link is not frozen.
func (l *link) gate() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.thawed
}

// flap freezes and thaws the link in turn until stop is called.
func (l *link) flap(period time.Duration) (stop func()) {
	quit, ended := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		defer l.thaw()
		for frozen := true; ; frozen = !frozen {
			if frozen {
				l.freeze()
			} else {
				l.thaw()
			}
			select {
			case <-time.After(period):
			case <-quit:
				return
			}
		}
	}()
	return func() { close(quit); <-ended }
}

var errNotRESP = errors.New("not a command as an array of strings")

// commandCounter counts the commands in what a client sends, however it is cut
// into pieces: arrays of strings, as all clients here send them.
type commandCounter struct {
	total *atomic.Int64
	line  []byte // the beginning of a line
	args  int    // strings of the command that are still to come
	skip  int    // bytes of a string that are
	err   error  // what follows cannot be counted
}

func (c *commandCounter) read(bytes []byte) {
	for len(bytes) > 0 && c.err == nil {
		if c.skip > 0 {
			n := min(c.skip, len(bytes))
			c.skip -= n
			bytes = bytes[n:]
			continue
		}
		b := bytes[0]
		bytes = bytes[1:]
		if c.line = append(c.line, b); b == '\n' {
			c.header()
			c.line = c.line[:0]
		}
	}
}

// header reads the line before a command or before one of its strings.
func (c *commandCounter) header() {
	n := 0
	for _, digit := range c.line[1:max(len(c.line)-2, 1)] {
		n = 10*n + int(digit-'0')
	}
	switch {
	case c.args == 0 && c.line[0] == '*':
		c.args = n
	case c.args > 0 && c.line[0] == '$':
		c.skip = n + 2
		if c.args--; c.args == 0 {
			c.total.Add(1)
		}
	default:
		c.err = errNotRESP
	}
}
