package lock

import (
	"context"
	"log/slog"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

const ms = time.Millisecond

// unconnected makes the lock "x" of a client of one node, without any goroutine or connection.
func unconnected() *Exclusive { return unconnectedAs("x", true) }

// unconnectedAs is unconnected for another name, or without tokens.
func unconnectedAs(name string, fencing bool) *Exclusive {
	const ttl, timeout = 10 * time.Second, 500 * time.Millisecond
	random := system.OSRandom{}
	events := notify.NewQueue(slog.New(slog.DiscardHandler), false)
	cfg := &node.Config{Clock: system.Now, Random: random, Events: events,
		Identities: node.NewIdentities(), Majority: node.NewMajority(1, system.Now, events), DeadAfter: time.Second}
	group := admission.NewGroup(admission.Terms{TTL: ttl, MaxTTL: ttl, Nodes: 1, Quorum: 1, Life: context.Background()}, cfg)
	group.Add(node.New(0, "node 0", nil, cfg), "#0")
	e := &Engine{ID: "client", Clock: system.Now, Random: random, NodeTimeout: timeout, Life: life.New(),
		Cluster: &quorum.Cluster{Roster: &group.Roster, Clock: system.Now}}
	e.Life.Settle()
	terms := &Terms{Lease: lease.Terms{TTL: ttl, Validity: ttl, NodeTimeout: timeout, Random: random},
		Wait: waitqueue.Terms{TTL: ttl, Random: random}, Fencing: fencing, LeastToken: protocol.FirstCount, Random: random}
	terms.Box()
	x := new(Exclusive)
	x.Init(e, terms, "redlock:", name)
	return x
}
