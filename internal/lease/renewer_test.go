package lease

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// idleLock is a lock whose leases are neither renewed nor released.
type idleLock struct {
	Lock  // nil: BeginRenewal and BeginRelease must not be called
	terms Terms
}

func (k *idleLock) LeaseTerms() *Terms { return &k.terms }

// newIdleLease makes a lease that is not started, and its renewer. Its client's clock stands
// still.
func newIdleLease() (*Renewer, *Lease) {
	r := NewRenewer(&Config{Clock: func() time.Duration { return time.Hour }})
	lock := &idleLock{terms: Terms{Validity: 9 * time.Second, RenewEvery: 3 * time.Second, Random: system.OSRandom{}}}
	return r, r.New(lock, Grant{Name: "x", Begun: time.Hour, Validity: 9 * time.Second})
}

// The renewer looks at a lease that is not due any more, since an Extend has prolonged it.
func TestRenewerLooksAgainWhenTheLeaseIsDue(t *testing.T) {
	r, l := newIdleLease()
	require.True(t, r.add(l))
	r.leases[l.place].due = system.Forever
	require.Nil(t, l.tick())
	require.Equal(t, l.next(), r.leases[l.place].due)
	require.Less(t, r.leases[l.place].due, l.Until())
}

// A lease that comes before the goroutine would have looked at the last one does not wake it. One that begins later
// does: the goroutine's timer has stood still, with the machine.
func TestRenewerWakesOnlyForALeaseThatItWouldMiss(t *testing.T) {
	now := time.Hour
	r := NewRenewer(&Config{Clock: func() time.Duration { return now }})
	lock := &idleLock{terms: Terms{Validity: 9 * time.Second, RenewEvery: 3 * time.Second, Random: system.OSRandom{}}}
	comes := func() (woken bool) {
		l := r.New(lock, Grant{Name: "x", Begun: now, Validity: 9 * time.Second})
		require.True(t, r.add(l))
		select {
		case <-r.wake:
			woken = true
			require.Positive(t, r.sleep())
		default:
		}
		r.remove(l)
		return woken
	}
	require.True(t, comes(), "the goroutine sleeps for ever")
	due := r.nextWake
	require.Equal(t, min(due-now, maxSleep), r.sleep(), "although the lease has left")
	now += time.Millisecond
	for range 10 {
		if comes() {
			require.Less(t, r.nextWake, due, "renewals are spread, so this one is earlier")
			due = r.nextWake
		}
	}
	now = due + time.Nanosecond
	require.True(t, comes(), "the goroutine should have looked")
	now += time.Hour
	require.Equal(t, system.Forever, r.sleep())
	require.True(t, comes())

	l := r.New(lock, Grant{Name: "x", Begun: now, Validity: 9 * time.Second})
	require.True(t, r.add(l))
	for len(r.wake) > 0 { // it may be due earlier than the last one
		<-r.wake
	}
	r.move(l, now)
	require.Empty(t, r.wake, "the goroutine looks in time")
	now += time.Hour
	r.move(l, now)
	require.NotEmpty(t, r.wake, "the goroutine should have looked")
}

func TestClosedRenewerTakesNoLease(t *testing.T) {
	r, l := newIdleLease()
	require.True(t, r.add(l))
	require.Equal(t, []*Lease{l}, r.Close())
	_, other := newIdleLease()
	require.False(t, r.add(other))
	require.Equal(t, 1, r.Len())
}

// The renewer found that the validity was over, and an Extend prolonged it before the renewer
// could end the lease.
func TestExpireDoesNotEndAValidLease(t *testing.T) {
	_, l := newIdleLease()
	l.expire()
	require.Nil(t, l.End())
	require.Equal(t, 9*time.Second, l.Remaining())
}

func TestRenewalRecountsTheAnswerOfANodeThatIsToUndoTheAttempt(t *testing.T) {
	r := &renewal{lease: &Lease{Grant: Grant{Owner: "me"}}}
	n := &admission.Member{Node: node.New(1, "node", nil, nil)}
	count := func(c quorum.Count) quorum.Count {
		return r.Answered(&quorum.Vote{Node: n}, quorum.Answer{Count: c}).Count
	}
	undo, other := &node.Undo{Owner: "me"}, &node.Undo{Owner: "other"}
	n.Undo(undo)
	n.Undo(other)
	require.Equal(t, quorum.NoAnswer, count(quorum.Yes))
	require.Equal(t, quorum.No, count(quorum.Recreated))
	require.Equal(t, quorum.No, count(quorum.Yes), "an earlier renewal created the key anew")
	undo.Receive(int64(1), nil)
	require.Equal(t, quorum.Recreated, count(quorum.Yes))
	r.lease.renewal.restored = 0
	require.Equal(t, quorum.Yes, count(quorum.Yes))
}

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
