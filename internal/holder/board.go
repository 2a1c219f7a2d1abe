package holder

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// Config is what a Board has of its client.
type Config struct {
	ID          string // names the client in questions
	Clock       system.Clock
	Life        *life.Life
	Cluster     *quorum.Cluster
	NodeTimeout time.Duration
	Channels    *node.Channels // of the client's subscriptions, whose messages Message takes
	Subscribe   func()         // begins these subscriptions
}

// Board is a client's part in telling who holds locks.
type Board struct {
	Wanted Wanted

	cfg   Config
	start sync.Once
	wake  chan struct{} // holds one signal after a change that run must see

	mu        sync.Mutex                       // protects what follows
	announced map[string]protocol.Announcement // by the lock's key: what this client holds
	observed  map[string]*observed             // by the lock's key
	asked     map[string][]*observed           // by an owner whose token is not known: where a quorum has it
	order     []*observed                      // all of observed
	next      int                              // in order: the one that a look by turn begins with
	turn      time.Duration                    // when the next look by turn is due
	looked    time.Duration                    // when the last look began
	unheard   bool                             // less than a quorum answered it
}

// NewBoard makes a client's Board.
func NewBoard(cfg Config) *Board {
	return &Board{cfg: cfg, wake: make(chan struct{}, 1), announced: make(map[string]protocol.Announcement),
		observed: make(map[string]*observed), asked: make(map[string][]*observed)}
}

// Message takes a message of a subscription that is not about waiters: an announcement of a holder, or a question of an
// observer. On the client's own channel comes "wanted", then the id of an owner; or "holds", then the announcement of
// an owner that was asked.
func (b *Board) Message(n *node.Node, channel, text string) {
	key, asks := protocol.SubjectOf(channel)
	what, rest, _ := strings.Cut(text, " ")
	switch {
	case asks:
		b.answer(n, key, text)
	case key != "":
		b.mu.Lock()
		defer b.mu.Unlock()
		o := b.observed[key]
		b.receive(o, protocol.ReadAnnouncement(text))
		if text == "" && o != nil && o.asked != "" && o.asks < mostAsks { // an answer can come from now on
			o.asks++
			n.Publish(protocol.QuestionChannel(key), b.cfg.ID)
		}
	case what == "wanted":
		b.Wanted.tell(rest)
	case what == "holds":
		a := protocol.ReadAnnouncement(rest)
		b.mu.Lock()
		defer b.mu.Unlock()
		for _, o := range b.asked[a.Owner] {
			b.receive(o, a)
		}
	}
}

// Listen has the client take messages. Errors: life.ErrClosed, or ctx's cause.
func (b *Board) Listen(ctx context.Context) error {
	if err := b.cfg.Life.Enter(ctx); err != nil {
		return err
	}
	defer b.cfg.Life.Leave()
	b.cfg.Subscribe()
	return nil
}

// Announce announces to the observers of locks that this client holds them by the lease of a, or no more. It does not
// wait.
func (b *Board) Announce(keys []string, a protocol.Announcement, held bool) {
	b.mu.Lock()
	for _, key := range keys {
		if held {
			b.announced[key] = a
		} else if b.announced[key] == a {
			delete(b.announced, key)
		}
		_, any := b.announced[key]
		b.cfg.Channels.Set(protocol.QuestionChannel(key), any)
	}
	b.mu.Unlock()
	if !held {
		a = protocol.Announcement{}
	}
	for _, key := range keys {
		b.publish(protocol.NewsChannel(key), a.String())
	}
}

// publish sends a message at all nodes.
func (b *Board) publish(channel, text string) {
	for _, n := range b.cfg.Cluster.Nodes() {
		n.Publish(channel, text)
	}
}

// answer tells the client that asks, over the node by which it asked, who holds a lock.
func (b *Board) answer(n *node.Node, key, client string) {
	b.mu.Lock()
	a, held := b.announced[key]
	b.mu.Unlock()
	if held && len(client) == len(b.cfg.ID) && protocol.IsAlphanumeric(client) {
		n.Publish(protocol.WakeChannel(client), "holds "+a.String())
	}
}
