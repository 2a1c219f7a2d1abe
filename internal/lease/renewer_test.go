package lease

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

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
