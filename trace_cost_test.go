package redlock

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
)

// instantClient is a client of five nodes that answer at once.
func instantClient(t testing.TB, opts ...Option) *Client {
	pools := make([]Pool, 5)
	for i := range pools {
		pools[i] = instantPool{}
	}
	c, err := New(pools, append([]Option{WithLogger(nil), WithRestartGuard(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Ping(context.Background()))
	return c
}

func lockAndUnlock(t testing.TB, m *Mutex) {
	lease, err := m.Lock(context.Background())
	if err == nil {
		err = lease.Unlock(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everyHook is a Trace whose hooks are all set, and do nothing.
func everyHook() *Trace {
	return &Trace{
		CallStart:       func(CallStart) {},
		CallEnd:         func(CallEnd) {},
		BallotStart:     func(BallotStart) {},
		BallotVote:      func(BallotVote) {},
		BallotEnd:       func(BallotEnd) {},
		WaitStart:       func(WaitStart) {},
		WaitEnd:         func(WaitEnd) {},
		LeaseGranted:    func(LeaseGranted) {},
		LeaseRenewed:    func(LeaseRenewed) {},
		LeaseDanger:     func(LeaseDanger) {},
		LeaseLost:       func(LeaseLost) {},
		LeaseReleased:   func(LeaseReleased) {},
		NodeUp:          func(NodeUp) {},
		NodeDown:        func(NodeDown) {},
		NodeStalled:     func(NodeStalled) {},
		NodeQuarantined: func(NodeQuarantined) {},
	}
}

func TestHooksThatAreNotSetAllocateNothing(t *testing.T) {
	if raceDetector {
		t.Skip("the race detector allocates by itself")
	}
	cost := func(opts ...Option) float64 {
		m := instantClient(t, opts...).Mutex("x")
		lockAndUnlock(t, m)
		return testing.AllocsPerRun(500, func() { lockAndUnlock(t, m) })
	}
	without := cost()
	require.Equal(t, without, cost(WithTrace(&Trace{})), "no hook is set")
	rare := &Trace{LeaseLost: func(LeaseLost) {}, NodeDown: func(NodeDown) {}}
	require.Equal(t, without, cost(WithTrace(rare)), "a lock that goes well calls none of those that are set")
	require.Greater(t, cost(WithTrace(everyHook())), without, "what hooks are told is allocated, or this counts nothing")
}

func BenchmarkLockAndUnlock(b *testing.B) {
	for name, opts := range map[string][]Option{
		"no-trace":    nil,
		"empty-trace": {WithTrace(&Trace{})},
		"every-hook":  {WithTrace(everyHook())},
	} {
		b.Run(name, func(b *testing.B) {
			c := instantClient(b, opts...)
			m := c.Mutex("x")
			b.ReportAllocs()
			for b.Loop() {
				lockAndUnlock(b, m)
			}
		})
		b.Run(name+"-parallel", func(b *testing.B) {
			c := instantClient(b, opts...)
			m := c.Mutex("x")
			b.ReportAllocs()
			b.SetParallelism(32)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					lockAndUnlock(b, m)
				}
			})
		})
	}
}
