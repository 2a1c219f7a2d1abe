package testnet

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// Must returns the lease of a call that must get one, such as net.Must(m.Lock(ctx)).
func (w *Net) Must(lease *redlock.Lease, err error) *redlock.Lease {
	w.T.Helper()
	require.NoError(w.T, err)
	return lease
}

// Held expects that a call is refused, since the lock is held. It returns what the error says, if it says more.
func (w *Net) Held(_ *redlock.Lease, err error) (held *redlock.HeldError) {
	w.T.Helper()
	require.ErrorIs(w.T, err, redlock.ErrHeld)
	errors.As(err, &held)
	return held
}

// NoQuorum expects that a call fails for want of a quorum, and returns the votes.
func (w *Net) NoQuorum(_ *redlock.Lease, err error) (votes *redlock.QuorumError) {
	w.T.Helper()
	require.ErrorIs(w.T, err, redlock.ErrNoQuorum)
	require.ErrorAs(w.T, err, &votes)
	return votes
}

// Status returns the state of a lock that a call must find, such as net.Status(c.Inspect(ctx, "x")).
func (w *Net) Status(s redlock.Status, err error) redlock.Status {
	w.T.Helper()
	require.NoError(w.T, err)
	return s
}

// Text returns the text of a transfer that must succeed.
func (w *Net) Text(text string, err error) string {
	w.T.Helper()
	require.NoError(w.T, err)
	return text
}

// Begin makes a call that waits, such as m.Lock, beside the test. The channel gets its lease, or is closed if there is
// none.
func (w *Net) Begin(lock func(context.Context) (*redlock.Lease, error)) <-chan *redlock.Lease {
	got := make(chan *redlock.Lease, 1)
	_, file, line, _ := runtime.Caller(1)
	go func() {
		lease, err := lock(w.T.Context())
		if !assert.NoError(w.T, err, "begun at %s:%d", file, line) {
			close(got)
			return
		}
		got <- lease
	}()
	return got
}

// Acquire is the call of Acquire for n permits.
func Acquire(s *redlock.Semaphore, n int) func(context.Context) (*redlock.Lease, error) {
	return func(ctx context.Context) (*redlock.Lease, error) { return s.Acquire(ctx, n) }
}

// Refuse has the node answer commands with an error. They are named as they are sent, or by their labels.
func (n *Node) Refuse(text string, commands ...string) {
	for _, c := range commands {
		if !isLabel(strings.ToLower(c)) {
			panic(fmt.Sprintf("testnet: %q is neither a script of package protocol nor a command of commandLabels", c))
		}
	}
	n.Set(func(n *Node) {
		n.Override = func(cmd string, args []string) string {
			if slices.Contains(commands, cmd) || slices.Contains(commands, n.Label(cmd, args)) {
				return text
			}
			return ""
		}
	})
}

// Nodes are nodes of a network, or some of them. Their methods do to each what those of a Node do.
type Nodes []*Node

func (ns Nodes) Set(change func(n *Node)) { ns.each(func(n *Node) { n.Set(change) }) }
func (ns Nodes) Refuse(text string, commands ...string) {
	ns.each(func(n *Node) { n.Refuse(text, commands...) })
}
func (ns Nodes) Drop(l *redlock.Lease) { ns.each(func(n *Node) { n.Drop(l) }) }
func (ns Nodes) Freeze()               { ns.each((*Node).Freeze) }
func (ns Nodes) Thaw()                 { ns.each((*Node).Thaw) }
func (ns Nodes) Mute()                 { ns.each((*Node).Mute) }
func (ns Nodes) Cut()                  { ns.each((*Node).Cut) }
func (ns Nodes) Down()                 { ns.each((*Node).Down) }
func (ns Nodes) Up()                   { ns.each((*Node).Up) }

func (ns Nodes) each(do func(*Node)) {
	for _, n := range ns {
		do(n)
	}
}

// Conn is what a connection to a node does. Tests wrap it; then the client takes it for another library's.
type Conn interface {
	redis.ConnWithTimeout
	redis.ConnWithContext
}
