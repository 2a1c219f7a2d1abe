package lease

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/quorum"
)

// leavingLock is a lock of leases that are transferred. It records whether a handle could have joined the lease since
// its nodes were settled.
type leavingLock struct {
	idleLock
	lease *Lease
	open  bool
}

func (*leavingLock) Shared() bool { return false }

func (k *leavingLock) BeginRelease(context.Context, *Grant, Ending) *quorum.Ballot {
	k.open = !k.lease.ending.leaving
	return nil
}

// settled is a transfer whose nodes all keep the keys.
type settled struct{ Transfer }

func (settled) Settle(string) (quorum.NodeSet, *quorum.Failure) { return 7, nil }

type deafObserver struct{ Observer }

func (deafObserver) Ended(context.Context, *Grant, State, *End) {}

// Between the choice of the nodes and the end of the lease, its lock is free for an instant. A handle that joined it
// then would hold a lease that another process resumes.
func TestNoHandleJoinsALeaseWhoseNodesAreSettled(t *testing.T) {
	newLease := func() (*Lease, *Handle, *leavingLock) {
		r, l := newIdleLease()
		k, h := &leavingLock{lease: l}, &Handle{}
		r.cfg.Observer, r.cfg.LostError, l.lock, l.ending.passing = deafObserver{}, nil, k, &Passing{}
		l.Bind(h)
		return l, h, k
	}
	l, h, k := newLease()
	was, failure, err := l.leaveTo(t.Context(), h, settled{})
	require.Nil(t, was)
	require.Nil(t, failure)
	require.NoError(t, err)
	require.False(t, k.open, "it is closed to handles until it has ended")

	l, h, _ = newLease()
	l.renewer.KeepHandles()
	require.Nil(t, new(Handle).Join(h, false, nil))
	l.ending.leaving = true
	require.Same(t, transferred, new(Handle).Join(h, false, nil))
}
