package redlock

import (
	"errors"
	"fmt"
	"log/slog"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// maxDebts bounds what one node can be owed. Only leases and attempts that were
// sent to it and then failed to be released there count, so a node would have
// to die under this many.
const maxDebts = 1 << 16

// debt is a release that a node has not confirmed: the attempt may stand there,
// or may yet be executed. It lasts until it is paid, since a frozen server can
// execute an attempt long after its ttl.
type debt struct {
	node  *node
	key   string
	owner string
	vote  *vote // a release that waits for the payment; nil if none does
	call  pipe.Call
}

// owe notes a debt and pays it at once where the node is connected. It reports
// whether it could be queued now.
func (n *node) owe(d *debt) (paying bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if _, known := n.debts[d.owner]; !known && len(n.debts) >= maxDebts {
		if !n.indebted {
			n.indebted = true
			n.opts.log(slog.LevelWarn, "too many releases are owed to a node; further ones are given up and their keys end with their ttl",
				"node", n.name, "owed", maxDebts)
		}
		return false
	}
	n.debts[d.owner] = d
	p := n.pipe.Load()
	return p != nil && n.pay(p, d) == nil
}

// payAll queues the payment of all debts, first thing on a new connection.
// Called under n.mu.
func (n *node) payAll(p *pipe.Pipe) error {
	for _, d := range n.debts {
		if err := n.pay(p, d); err != nil {
			return err
		}
	}
	return nil
}

// pay queues one payment. The script goes by its text: a debt must not fail
// because the scripts were flushed.
func (n *node) pay(p *pipe.Pipe, d *debt) error {
	d.call = pipe.Call{Command: "EVAL", Args: releaseScript.byText(d.key, d.owner), To: d}
	flush, _, err := p.Queue(&d.call, n.opts.clock(), nil)
	if flush {
		// Not here: the caller may be the reader of this very connection.
		go p.Flush()
	}
	return err
}

// Receive strikes the debt out when it is paid. One that is not stays, and is
// paid on the next connection.
func (d *debt) Receive(reply any, err error) {
	if err == nil || neverGranted(err) {
		d.node.mu.Lock()
		delete(d.node.debts, d.owner)
		d.node.indebted = false
		d.node.mu.Unlock()
	} else {
		d.node.reconnect(fmt.Errorf("a release failed: %w", err))
	}
	if d.vote != nil {
		d.vote.count(understand(releasing, reply, err))
	}
}

// neverGranted tells that the node refuses a release for a reason for which it
// cannot have granted the attempt either.
func neverGranted(err error) bool {
	return isCode(err, "NOPERM") || isCode(err, "WRONGTYPE")
}

// isCode tells whether err is the server's error reply of this code.
func isCode(err error, want string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && code(reply) == want
}
