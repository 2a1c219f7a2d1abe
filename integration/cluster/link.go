package cluster

import (
	"net"
	"sync"
	"time"
)

// link is one client connection through a proxy.
type link struct {
	proxy  *proxy
	number int // in the order of their opening, from 1
	client *net.TCPConn
	gone   chan struct{} // closed by abort

	mu     sync.Mutex
	server *net.TCPConn // nil until dialled
	over   bool
}

// chunk is a piece of a stream that arrived at a moment.
type chunk struct {
	bytes []byte
	at    time.Time
}

// inFlight bounds the chunks on their way in one direction, as a network's
// buffers do: a sender that goes on against a cut blocks in the end.
const inFlight = 256

type direction int

const (
	requests direction = iota
	replies
)

func newLink(p *proxy, number int, client *net.TCPConn) *link {
	return &link{proxy: p, number: number, client: client, gone: make(chan struct{})}
}

// run carries bytes both ways until the connection ends on both sides.
func (l *link) run() {
	defer l.proxy.drop(l)
	// A cut holds back the opening of the connection too.
	if !l.pass(requests, time.Now()) {
		return
	}
	conn, err := net.DialTimeout("tcp", l.proxy.target, 5*time.Second)
	if err != nil || !l.join(conn.(*net.TCPConn)) {
		l.abort()
		return
	}
	var both sync.WaitGroup
	both.Go(func() { l.carry(requests, l.client, l.server) })
	both.Go(func() { l.carry(replies, l.server, l.client) })
	both.Wait()
	_ = l.client.Close()
	_ = l.server.Close()
}

// join gives the link its server side. It returns false if the link was aborted meanwhile.
func (l *link) join(server *net.TCPConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		_ = server.Close()
		return false
	}
	l.server = server
	return true
}

func (l *link) carry(dir direction, from, to *net.TCPConn) {
	chunks := make(chan chunk, inFlight)
	go l.read(from, chunks)
	l.write(dir, chunks, to)
	if dir == replies {
		// The server never closes one direction only: it does not read the client's
		// requests any more.
		_ = to.Close()
	}
}

// read keeps reading while the writer is held up, so that the end of a
// connection is noticed in its place behind the bytes before it.
func (l *link) read(from *net.TCPConn, chunks chan<- chunk) {
	defer close(chunks)
	for {
		buf := make([]byte, 4096)
		n, err := from.Read(buf)
		if n > 0 {
			select {
			case chunks <- chunk{buf[:n], time.Now()}:
			case <-l.gone:
				return
			}
		}
		if err != nil {
			return
		}
	}
}

func (l *link) write(dir direction, chunks <-chan chunk, to *net.TCPConn) {
	for c := range chunks {
		if !l.pass(dir, c.at) {
			return
		}
		if dir == replies {
			if l.proxy.takeLoss() {
				l.abort()
				return
			}
			if r, _ := l.proxy.look(); r.garbage != nil {
				c.bytes = r.garbage
			}
		}
		if _, err := to.Write(c.bytes); err != nil {
			l.abort()
			return
		}
	}
	if l.pass(dir, time.Now()) {
		_ = to.CloseWrite()
	}
}

// pass waits until the rules let through bytes that arrived at the given instant. It returns
// false if the link was aborted.
func (l *link) pass(dir direction, at time.Time) bool {
	for {
		r, changed := l.proxy.look()
		var due <-chan time.Time
		if !r.hold(l, dir) {
			wait := time.Until(at.Add(r.delay))
			if r.delay == 0 || wait <= 0 {
				select {
				case <-l.gone:
					return false
				default:
					return true
				}
			}
			due = time.After(wait)
		}
		select {
		case <-l.gone:
			return false
		case <-changed:
		case <-due:
		}
	}
}

// abort breaks the connection on both sides with a reset; bytes on their way are
// lost.
func (l *link) abort() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.over {
		return
	}
	l.over = true
	close(l.gone)
	for _, c := range []*net.TCPConn{l.client, l.server} {
		if c != nil {
			_ = c.SetLinger(0)
			_ = c.Close()
		}
	}
}
