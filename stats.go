package redlock

import (
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
)

// Stats is what a Client has done since it was made, and what it does now. What is
// counted only grows, but for the fields that say now.
type Stats struct {
	Leases  int // leases held now
	Waiting int // calls of Lock that were refused and wait now

	// Attempts: a TryLock makes one or a few, a Lock one more after each wait.
	Acquired uint64 // got the lock
	Held     uint64 // found that another caller has it, or may have it
	NoQuorum uint64 // had too few votes, and too few answers to say that somebody else has it

	Renewed   uint64 // leases prolonged, by themselves or by Extend
	Unrenewed uint64 // renewals that were inconclusive
	Lost      uint64 // leases that ended before they were released
	Released  uint64 // leases ended by Unlock or Close, or since they were dropped

	Waits    uint64        // calls of Lock that waited and do no more
	WaitTime time.Duration // how long they did, together

	Dropped uint64 // events that the logger and the Trace hooks were too slow for

	Nodes []NodeStats // in the order given to New or Open
}

// NodeStats is Stats' part of one node. Each vote in a ballot of any kind is counted
// once as Granted, Refused, Unknown or NotSent.
type NodeStats struct {
	Index int    // the node's place in the list given to New or Open
	Node  string // the node's name in errors and logs

	// State, now: "up", it votes; "stalled", it would, but its answers are overdue;
	// "quarantined", it may not vote for new leases yet; "down"; or "unfit", it does
	// not vote until a person acts.
	State string
	Err   error // why it is not up; nil for "up" and "stalled"

	Granted uint64 // votes: it did what was asked
	Refused uint64 // votes: it answered and did not
	Unknown uint64 // votes: it did not answer in time
	NotSent uint64 // votes: it was not asked, or did not execute it
	Late    uint64 // answers that came after all, to votes counted as Unknown

	Connects   uint64 // connections made on which it was asked to vote
	Undos      int    // releases and rollbacks that it has not confirmed yet
	Unanswered int    // calls under way to it now
}

// counters are a client's.
type counters struct {
	acquired, held, noQuorum atomic.Uint64
	renewed, unrenewed       atomic.Uint64
	lost, released           atomic.Uint64
	waits                    atomic.Uint64
	waiting, waited          atomic.Int64 // calls; nanoseconds
}

// Stats is a snapshot. It asks no node, and its parts may be a moment apart. It may
// be called at any time, also after Close.
func (c *Client) Stats() Stats {
	s := Stats{
		Leases:    c.renewer.Len(),
		Waiting:   int(c.observe.counts.waiting.Load()),
		Acquired:  c.observe.counts.acquired.Load(),
		Held:      c.observe.counts.held.Load(),
		NoQuorum:  c.observe.counts.noQuorum.Load(),
		Renewed:   c.observe.counts.renewed.Load(),
		Unrenewed: c.observe.counts.unrenewed.Load(),
		Lost:      c.observe.counts.lost.Load(),
		Released:  c.observe.counts.released.Load(),
		Waits:     c.observe.counts.waits.Load(),
		WaitTime:  time.Duration(c.observe.counts.waited.Load()),
		Dropped:   c.events.Dropped(),
		Nodes:     make([]NodeStats, len(c.cluster.Nodes)),
	}
	for i, n := range c.cluster.Nodes {
		s.Nodes[i] = c.statsOf(n)
	}
	return s
}

// statsOf returns what is known of a node.
func (c *Client) statsOf(n *admission.Member) NodeStats {
	votes := &n.Counters.Votes
	s := NodeStats{
		Index:    n.Index,
		Node:     n.Name,
		Granted:  votes[Granted].Load(),
		Refused:  votes[Refused].Load(),
		Unknown:  votes[Unknown].Load(),
		NotSent:  votes[NotSent].Load(),
		Late:     n.Counters.Late.Load(),
		Connects: n.Counters.Connects.Load(),
		Undos:    n.Undos(),
	}
	p, right := n.Pipe(), n.Current()
	if p != nil {
		s.Unanswered = p.Unanswered()
	}
	switch {
	case p == nil || right == nil:
		s.State, s.Err = "down", n.Why()
	case !right.Votes:
		s.State, s.Err = "quarantined", right.Why()
	case p.Silence(c.opts.clock()) > c.opts.voteTimeout():
		s.State = "stalled"
	default:
		s.State = "up"
	}
	if node.IsPermanent(s.Err) {
		s.State = "unfit"
	}
	return s
}
