package redlockotel

import (
	"context"
	"errors"
	"fmt"

	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/metric"

	"github.com/redlock-go/redlock"
)

// states are the values of redlock.NodeStats.State.
var states = []string{"up", "stalled", "refusing", "quarantined", "down", "unfit"}

// observables are the instruments that are read from a client's Stats.
type observables struct {
	leases, waiting, unanswered, undos, state metric.Int64ObservableUpDownCounter
	attempts, renewals, ended, dropped        metric.Int64ObservableCounter
	votes, late, connects                     metric.Int64ObservableCounter
}

func (o *observables) make(m metric.Meter) ([]metric.Observable, error) {
	var all []metric.Observable
	var failed error
	add := func(i metric.Observable, err error) {
		all, failed = append(all, i), errors.Join(failed, err)
	}
	now := func(name, unit, description string) metric.Int64ObservableUpDownCounter {
		i, err := m.Int64ObservableUpDownCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		add(i, err)
		return i
	}
	count := func(name, unit, description string) metric.Int64ObservableCounter {
		i, err := m.Int64ObservableCounter(name, metric.WithUnit(unit), metric.WithDescription(description))
		add(i, err)
		return i
	}
	o.leases = now("redlock.leases.held", "{lease}", "Leases held.")
	o.waiting = now("redlock.calls.waiting", "{call}", "Calls of Lock, RLock and Acquire that were refused and wait.")
	o.attempts = count("redlock.attempts", "{attempt}", "Attempts to lock: acquired, held by somebody else, or without a quorum of answers.")
	o.renewals = count("redlock.renewals", "{renewal}", "Renewals of leases: granted, or inconclusive.")
	o.ended = count("redlock.lease.ends", "{lease}", "Leases that ended: released, or lost.")
	o.dropped = count("redlock.events.dropped", "{event}", "Events that the hooks and the logger were too slow for.")
	o.state = now("redlock.node.status", "{node}", "1 for the state that a node is in, 0 for the others.")
	o.votes = count("redlock.node.votes", "{vote}", "Votes of a node.")
	o.late = count("redlock.node.late_answers", "{answer}", "Answers of a node to votes that were counted as unknown.")
	o.connects = count("redlock.node.connects", "{connection}", "Connections made to a node to vote on.")
	o.undos = now("redlock.node.undos", "{release}", "Releases and rollbacks that a node has not confirmed.")
	o.unanswered = now("redlock.node.unanswered", "{call}", "Calls to a node that are under way.")
	return all, failed
}

// Observe reads the client's Stats whenever metrics are collected, until the registration
// is ended: after Close the figures stay as they are. The figures of clients that one
// Telemetry observes are added up; to distinguish the clients, use a Telemetry with
// WithAttributes for each. It returns an error if the MeterProvider refuses an instrument.
func (t *Telemetry) Observe(c *redlock.Client) (metric.Registration, error) {
	var o observables
	all, err := o.make(t.meter)
	if err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	registration, err := t.meter.RegisterCallback(func(_ context.Context, to metric.Observer) error {
		t.observe(to, &o, c.Stats())
		return nil
	}, all...)
	if err != nil {
		return nil, fmt.Errorf("redlockotel: %w", err)
	}
	return registration, nil
}

func (t *Telemetry) observe(to metric.Observer, o *observables, s redlock.Stats) {
	record := func(i metric.Int64Observable, n int64, attributes ...attribute.KeyValue) {
		to.ObserveInt64(i, n, t.common, metric.WithAttributes(attributes...))
	}
	record(o.leases, int64(s.Leases))
	record(o.waiting, int64(s.Waiting))
	record(o.attempts, int64(s.Acquired), outcomeKey.String("acquired"))
	record(o.attempts, int64(s.Held), outcomeKey.String("held"))
	record(o.attempts, int64(s.NoQuorum), outcomeKey.String("no_quorum"))
	record(o.renewals, int64(s.Renewed), outcomeKey.String("granted"))
	record(o.renewals, int64(s.Unrenewed), outcomeKey.String("inconclusive"))
	record(o.ended, int64(s.Released), outcomeKey.String("released"))
	record(o.ended, int64(s.Lost), outcomeKey.String("lost"))
	record(o.dropped, int64(s.Dropped))
	for i := range s.Nodes {
		t.observeNode(record, o, &s.Nodes[i])
	}
}

func (t *Telemetry) observeNode(record func(metric.Int64Observable, int64, ...attribute.KeyValue), o *observables, n *redlock.NodeStats) {
	node := nodeOf(n.Index, n.Node)
	with := func(more attribute.KeyValue) []attribute.KeyValue { return append(node[:len(node):len(node)], more) }
	for _, state := range states {
		is := int64(0)
		if state == n.State {
			is = 1
		}
		record(o.state, is, with(stateKey.String(state))...)
	}
	for outcome, votes := range map[string]uint64{"granted": n.Granted, "refused": n.Refused,
		"unknown": n.Unknown, "not_sent": n.NotSent} {
		record(o.votes, int64(votes), with(outcomeKey.String(outcome))...)
	}
	record(o.late, int64(n.Late), node...)
	record(o.connects, int64(n.Connects), node...)
	record(o.undos, int64(n.Undos), node...)
	record(o.unanswered, int64(n.Unanswered), node...)
}
