package testnet

import (
	"io"
	"net"
	"slices"
	"strconv"
	"time"
)

// link is one connection. A node executes what clients send in the order of their sending, on
// whichever links, unless a link or the node is slow or held: a command that a client sent before
// another client's is executed before it. Without this order a Lock that a quorum has answered
// might still be on its way to the other nodes when the test goes on.
type link struct {
	node      *Node
	Near, far net.Conn
	requests  stream
	replies   stream
	Cut       bool          // protected by node.Mu, like what follows, and the streams
	Delay     time.Duration // more than the node's, each way
	Held      bool          // nothing gets through
}

// stream is what is on its way in one direction.
type stream struct {
	queue []*chunk
	ended bool // nothing more is sent
}

// chunk is a piece of a stream.
type chunk struct {
	link *link
	data []byte
	due  time.Time // when it arrives
	id   string    // of a request: it is unique at the node
	ends bool      // of a request: its end is that of a command
}

// executed is a command that the node answers with nothing. It follows the commands of a chunk,
// with the chunk's id, and so shows that the server has executed them.
const executed = "TESTNET.EXECUTED"

// newLink connects a client with a server. It returns the client's side. Called under n.Mu.
func newLink(n *Node, serverSide net.Conn) (*link, net.Conn) {
	clientSide, near := net.Pipe()
	l := &link{node: n, Near: near, far: serverSide}
	go l.deliverRequests()
	go l.deliverReplies()
	go l.read(near, &l.requests, nil)
	go l.read(serverSide, &l.replies, l.reply)
	return l, &sender{Conn: clientSide, link: l}
}

// sender is a client's side. Its writes never wait, as a socket has room.
type sender struct {
	net.Conn
	link *link
	scan scanner
}

func (s *sender) Write(data []byte) (int, error) {
	l, n := s.link, s.link.node
	err := io.ErrClosedPipe
	n.Set(func(n *Node) {
		if l.Cut || l.requests.ended {
			return
		}
		n.sent++
		c := &chunk{link: l, data: slices.Clone(data), due: l.arrival(), id: strconv.Itoa(n.sent), ends: s.scan.over(data)}
		l.requests.queue = append(l.requests.queue, c)
		n.order = append(n.order, c)
		err = nil
	})
	if err != nil {
		return 0, err
	}
	return len(data), nil
}

// arrival is when what is sent now arrives. Called under node.Mu.
func (l *link) arrival() time.Time { return time.Now().Add(l.node.Delay + l.Delay) }

func (l *link) reply(data []byte) {
	l.replies.queue = append(l.replies.queue, &chunk{link: l, data: data, due: l.arrival()})
}

// read reads until the stream ends. add gets what it reads, under node.Mu.
func (l *link) read(from net.Conn, s *stream, add func([]byte)) {
	buf := make([]byte, 32<<10)
	for {
		k, err := from.Read(buf)
		l.node.Set(func(*Node) {
			if k > 0 && add != nil {
				add(slices.Clone(buf[:k]))
			}
			s.ended = s.ended || err != nil
		})
		if err != nil {
			return
		}
	}
}

// next takes the next chunk of a stream, waits until it is due, and returns it; nil when the stream has ended. The end of a
// stream that is held back does not get through either: the server goes on with the connection of a client that is cut off.
func (l *link) next(s *stream, held func() bool) *chunk {
	n := l.node
	n.Mu.Lock()
	for len(s.queue) == 0 && (!s.ended || l.Held) || len(s.queue) > 0 && held() {
		n.changed.Wait()
	}
	if len(s.queue) == 0 {
		n.Mu.Unlock()
		return nil
	}
	c := s.queue[0]
	s.queue = s.queue[1:]
	n.Mu.Unlock()
	time.Sleep(time.Until(c.due))
	return c
}

func (l *link) heldBack() bool { return l.node.Holding || l.Held }

// deliverRequests hands the server what the client sent, each chunk when it is due and those
// before it were executed. What was sent before the client's side was cut is executed still.
func (l *link) deliverRequests() {
	n := l.node
	defer n.Set(func(n *Node) {
		_ = l.far.Close()
		l.requests.ended = true
		n.order = slices.DeleteFunc(n.order, func(c *chunk) bool { return c.link == l })
	})
	for {
		c := l.next(&l.requests, l.heldBack)
		if c == nil {
			return
		}
		n.Mu.Lock()
		for !n.isFirst(c) {
			n.changed.Wait()
		}
		n.Mu.Unlock()
		data := c.data
		if c.ends {
			data = append(data, "*2\r\n$"+strconv.Itoa(len(executed))+"\r\n"+executed+"\r\n$"+strconv.Itoa(len(c.id))+"\r\n"+c.id+"\r\n"...)
		}
		_, err := l.far.Write(data)
		switch {
		case err != nil:
			return
		case !c.ends:
			n.Set(func(n *Node) { n.remove(c.id) })
		}
	}
}

// isFirst reports whether all that was sent before c was executed, except what is not due yet,
// or held back. Called under n.Mu.
func (n *Node) isFirst(c *chunk) bool {
	for _, before := range n.order {
		if before == c {
			return true
		}
		if !before.link.heldBack() && !before.due.After(time.Now()) {
			return false
		}
	}
	return true
}

// remove takes a chunk that was executed out of the order. Called under n.Mu.
func (n *Node) remove(id string) {
	n.order = slices.DeleteFunc(n.order, func(c *chunk) bool { return c.id == id })
}

// deliverReplies hands the client what the server sent, except what is to be lost.
func (l *link) deliverReplies() {
	n := l.node
	defer l.Near.Close()
	for {
		c := l.next(&l.replies, func() bool { return n.Muting || l.Held })
		if c == nil {
			return
		}
		n.Mu.Lock()
		cut := l.Cut
		lost := n.Lose != nil && n.Lose(c.data)
		n.Mu.Unlock()
		if cut {
			return
		}
		if lost {
			continue
		}
		if _, err := l.Near.Write(c.data); err != nil {
			return
		}
	}
}

// scanner finds the ends of commands in a client's stream.
type scanner struct {
	line   []byte // the header that is not complete yet
	values int    // that the command still has
	skip   int    // bytes of a value that are still to come, with their line end
}

// over takes the next bytes, and reports whether they end with the end of a command.
func (s *scanner) over(data []byte) bool {
	for len(data) > 0 {
		if s.skip > 0 {
			k := min(s.skip, len(data))
			s.skip, data = s.skip-k, data[k:]
			if s.skip == 0 {
				s.values--
			}
			continue
		}
		s.line, data = append(s.line, data[0]), data[1:]
		if s.line[len(s.line)-1] != '\n' {
			continue
		}
		number, _ := strconv.Atoi(string(s.line[1 : len(s.line)-2]))
		if s.line[0] == '*' {
			s.values = number
		} else {
			s.skip = number + len("\r\n")
		}
		s.line = s.line[:0]
	}
	return s.values == 0 && len(s.line) == 0
}
