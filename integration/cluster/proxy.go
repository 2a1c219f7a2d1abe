package cluster

import (
	"errors"
	"net"
	"sync"
	"time"
)

// proxy stands between clients and one server and disturbs what passes.
type proxy struct {
	ln     net.Listener
	target string

	mu      sync.Mutex
	rules   rules
	changed chan struct{} // closed at every change of rules, then replaced
	links   map[*link]struct{}
	number  int // of the newest link
}

// rules say how a proxy treats what passes; the zero value lets everything through.
type rules struct {
	holdRequests bool
	holdReplies  bool
	stranded     int           // links up to this number are held in both directions
	loseReplies  int           // how many more answers are lost with their connection
	garbage      []byte        // what clients get in place of every answer
	delay        time.Duration // one way
}

func (r *rules) hold(l *link, dir direction) bool {
	return l.number <= r.stranded ||
		dir == requests && r.holdRequests || dir == replies && r.holdReplies
}

func newProxy(target string) (*proxy, error) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &proxy{ln: ln, target: target, changed: make(chan struct{}), links: map[*link]struct{}{}}
	go p.accept()
	return p, nil
}

func (p *proxy) addr() string { return p.ln.Addr().String() }

func (p *proxy) accept() {
	for {
		conn, err := p.ln.Accept()
		if err != nil {
			return // closed
		}
		go p.add(conn.(*net.TCPConn)).run()
	}
}

func (p *proxy) add(client *net.TCPConn) *link {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.number++
	l := newLink(p, p.number, client)
	p.links[l] = struct{}{}
	return l
}

// strand holds the present links; new ones get through.
func (p *proxy) strand() { p.change(func(r *rules) { r.stranded = p.number }) }

// change applies f to the rules, under the lock, and wakes the links that wait.
func (p *proxy) change(f func(*rules)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(&p.rules)
	close(p.changed)
	p.changed = make(chan struct{})
}

// look returns the rules and a channel that is closed at their next change.
func (p *proxy) look() (rules, <-chan struct{}) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rules, p.changed
}

// takeLoss reports whether the answer at hand is one to lose.
func (p *proxy) takeLoss() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.rules.loseReplies == 0 {
		return false
	}
	p.rules.loseReplies--
	return true
}

func (p *proxy) drop(l *link) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.links, l)
}

func (p *proxy) breakAll() {
	p.mu.Lock()
	links := make([]*link, 0, len(p.links))
	for l := range p.links {
		links = append(links, l)
	}
	p.mu.Unlock()
	for _, l := range links {
		l.abort()
	}
}

func (p *proxy) reset() {
	p.change(func(r *rules) { *r = rules{} })
	p.breakAll()
}

func (p *proxy) close() error {
	err := p.ln.Close()
	p.reset()
	if errors.Is(err, net.ErrClosed) {
		return nil
	}
	return err
}
