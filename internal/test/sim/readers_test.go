package sim

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/simredis"
)

// Readers and writers: how leases hold a lock, and what their owners have at a node.

// held returns when the lease was held.
func (v *simVisit) held() simSpan { return simSpan{v.answered, v.ended} }

// heldAlone returns when the lease excluded all others: until just before its Downgrade; a share
// never did.
func (v *simVisit) heldAlone() simSpan {
	switch {
	case v.reads:
		return simSpan{v.answered, v.answered}
	case v.sharedAt > 0:
		return simSpan{v.answered, min(v.ended, v.sharedAt)}
	}
	return v.held()
}

// conflicts reports whether two leases of a lock were held at one instant, and one of them
// alone.
func (v *simVisit) conflicts(other *simVisit) bool {
	return v.heldAlone().overlaps(other.held()) || v.held().overlaps(other.heldAlone())
}

// overlaps reports whether two times have more than an end in common.
func (s simSpan) overlaps(t simSpan) bool { return max(s.from, t.from) < min(s.to, t.to) }

// downgrades calls Downgrade. From just before the call on the lease is a share; after it, at a
// quorum of the nodes.
func (v *simVisit) downgrades() {
	err := v.prolong("downgrade", func(ctx context.Context) error {
		v.sharedAt = v.history.now()
		return v.lease.Downgrade(ctx)
	})
	if !v.lease.Valid() {
		return
	}
	if !v.lease.Shared() {
		v.history.fail("%v's lease, token %d, does not count as a share after its downgrade", v.caller, v.token)
	}
	r := v.history.run
	if alone := r.excluding(v); err == nil && alone > r.plan.nodes-r.plan.quorum() {
		v.history.fail("%v's lease, token %d, excludes readers at %d nodes after its downgrade", v.caller, v.token, alone)
	}
}

// excluding returns at how many nodes a lease excludes readers since its downgrade, of those that
// were well all the time: the others may have come back with old data.
func (r *simRun) excluding(v *simVisit) (nodes int) {
	for i, s := range r.servers {
		excludes := func(p simPossession) bool { return p.owner == v.lease.Owner() && !p.isShare() }
		if slices.ContainsFunc(possessions(s), excludes) && !r.wellness.ill(i, v.caller.client.index).touch(v.sharedAt, r.history.now()) {
			nodes++
		}
	}
	return nodes
}

// simPossession is what an owner has at a node: a lock's key, or a share.
type simPossession struct {
	key   string // the lock's, or that of its readers
	owner string // "" of a lock's key that says that readers hold it, where none does
	left  time.Duration
	void  bool // a share that counts for nothing: the lock's key does not say that readers hold it
	rests bool // the owner's lease has ended, and the lock rests
}

func (p simPossession) String() string { return fmt.Sprintf("%s = %q, for %v", p.key, p.owner, p.left) }

// isShare reports whether it is a share, and not a lock's key.
func (p simPossession) isShare() bool { return strings.HasPrefix(p.key, readersOf("")) }

// possessions returns what owners have at a server.
func possessions(s *simredis.Server) (all []simPossession) {
	keys := make(map[string]simredis.Key)
	for _, k := range s.Keys() {
		keys[k.Name] = k
	}
	for _, name := range slices.Sorted(maps.Keys(keys)) {
		k := keys[name]
		readers, isReaders := keys[readersOf(name)], strings.HasPrefix(name, readersOf(""))
		switch {
		case isReaders:
			lock := strings.TrimPrefix(name, readersOf(""))
			for _, m := range k.Members {
				if m.Left > 0 {
					all = append(all, simPossession{key: name, owner: m.Name, left: m.Left, void: keys[lock].Text != protocol.Shared})
				}
			}
		case strings.HasPrefix(name, protocol.Reserved):
		case k.Text == protocol.Shared && slices.ContainsFunc(readers.Members, func(m simredis.Member) bool { return m.Left > 0 }):
			// Its readers have it.
		case k.Text == protocol.Shared:
			all = append(all, simPossession{key: name, left: k.Left})
		default:
			owner, rests := protocol.CutResting(k.Text)
			all = append(all, simPossession{key: name, owner: owner, left: k.Left, rests: rests})
		}
	}
	return all
}

// readersOf returns the key of a lock's readers.
func readersOf(lock string) string { return protocol.Key("readers", lock) }
