package redlock

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// maxDebts bounds what one node can be owed. Only leases and attempts that were
// sent to it and then failed to be released there count, so a node would have
// to die under this many.
const maxDebts = 1 << 16

// mostTries is how many refused payments are tried again at once.
const mostTries = 100

// debt is a release that a node has not confirmed: the attempt may stand there,
// or may yet be executed. It lasts until it is paid, since a frozen server can
// execute an attempt long after its ttl.
type debt struct {
	node   *node
	key    string
	owner  string
	ticket string // leaves the line there, whether it is to stay elsewhere: who waits on is back at its next look
	ttl    time.Duration
	vote   *vote // a release that waits for the payment; nil if none does
	call   pipe.Call

	// Protected by node.mu.
	refused bool          // the server answered with an error: to be tried again
	until   time.Duration // since it answers, what it executed before ends by then
}

// owe notes a debt and pays it at once where the node is connected. It reports
// whether it could be queued now.
func (n *node) owe(d *debt) (paying bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.debts[d.owner]; !known && len(n.debts) >= maxDebts {
		if !n.indebted {
			n.indebted = true
			n.opts.herald.log(slog.LevelWarn, "too many releases are owed to a node; further ones are given up and their keys end with their ttl",
				"node", n.name, "owed", maxDebts)
		}
		return false
	}
	n.debts[d.owner] = d
	p := n.pipe.Load()
	return p != nil && n.pay(p, d) == nil
}

// owes tells that the release of this owner's attempt is not confirmed.
func (n *node) owes(owner string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	_, owes := n.debts[owner]
	return owes
}

// payAll queues the payment of all debts, first thing on a new connection.
// The order is always the same, as everywhere, so that a
// simulation can be repeated. Called under n.mu.
func (n *node) payAll(p *pipe.Pipe) error {
	for _, owner := range slices.Sorted(maps.Keys(n.debts)) {
		if err := n.pay(p, n.debts[owner]); err != nil {
			return err
		}
	}
	return nil
}

// payAgain tries those payments again that the server refused, a few at a time.
func (n *node) payAgain(p *pipe.Pipe) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.opts.clock()
	var refused []string
	for owner, d := range n.debts {
		if d.refused && now > d.until {
			delete(n.debts, owner)
		} else if d.refused {
			refused = append(refused, owner)
		}
	}
	slices.Sort(refused)
	for _, owner := range refused[:min(len(refused), mostTries)] {
		if n.pay(p, n.debts[owner]) != nil {
			return // the next connection pays all
		}
	}
}

// pay queues one payment. Called under n.mu. The script goes by its text: a debt must not fail
// because the scripts were flushed.
func (n *node) pay(p *pipe.Pipe, d *debt) error {
	d.refused = false
	d.call = pipe.Call{Command: "EVAL", Args: leaving(releaseScript.byText(d.key, d.owner), d.ticket), To: d}
	flush, _, err := p.Queue(&d.call, n.opts.clock(), nil)
	if flush {
		// Not here: the caller may be the reader of this very connection.
		go p.Flush()
	}
	return err
}

// lineLife is how long a line lasts at a node, at most: see join in scripts/line.lua.
const lineLife = 751 * time.Second

// lasts is how long it stands at the node, at most, if nothing is done.
func (d *debt) lasts() time.Duration {
	if d.ticket == "" {
		return d.ttl
	}
	return max(d.ttl, lineLife)
}

// Receive strikes the debt out when it is paid. One that got no answer is paid
// on the next connection. One that was refused is tried again for as long as it
// stands: the server is alive, so what it may have executed before ends by then.
func (d *debt) Receive(reply any, err error) {
	var refusal redis.Error
	n := d.node
	n.mu.Lock()
	switch {
	case err == nil || isCode(err, "WRONGTYPE"): // not even a key of ours
		delete(n.debts, d.owner)
		n.indebted = false
	case errors.As(err, &refusal):
		d.refused = true
		if d.until == 0 {
			d.until = n.opts.clock() + d.lasts()
		}
	}
	n.mu.Unlock()
	if d.vote != nil {
		d.vote.count(understand(releasing, reply, err))
	}
}

// isCode tells whether err is the server's error reply of this code.
func isCode(err error, want string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && code(reply) == want
}
