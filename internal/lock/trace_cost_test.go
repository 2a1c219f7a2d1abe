package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// instantClient is a client of five nodes that answer at once.
func instantClient(t testing.TB, opts ...redlock.ClientOption) *redlock.Client {
	c, err := redlock.New(testnet.InstantPools(5), append([]redlock.ClientOption{redlock.WithLogger(nil), redlock.WithRestartGuard(0)}, opts...)...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = c.Close() })
	require.NoError(t, c.Ping(context.Background()))
	return c
}

func lockAndUnlock(t testing.TB, m *redlock.Mutex) {
	lease, err := m.Lock(context.Background())
	if err == nil {
		err = lease.Unlock(context.Background())
	}
	if err != nil {
		t.Fatal(err)
	}
}

// everyHook is a Trace whose hooks are all set, and do nothing.
func everyHook() *redlock.Trace {
	return &redlock.Trace{
		CallStart:   func(redlock.CallEvent) {},
		CallEnd:     func(redlock.CallEvent) {},
		BallotStart: func(redlock.BallotEvent) {},
		BallotVote:  func(redlock.BallotVote) {},
		BallotEnd:   func(redlock.BallotEvent) {},
		WaitStart:   func(redlock.WaitEvent) {},
		WaitEnd:     func(redlock.WaitEvent) {},
		Lease:       func(redlock.LeaseEvent) {},
		Node:        func(redlock.NodeEvent) {},
	}
}

func TestUnsetHooksAllocateNothing(t *testing.T) {
	if testnet.RaceDetector {
		t.Skip("the race detector allocates by itself")
	}
	cost := func(opts ...redlock.ClientOption) float64 {
		m := instantClient(t, opts...).Mutex("x")
		lockAndUnlock(t, m)
		return testing.AllocsPerRun(500, func() { lockAndUnlock(t, m) })
	}
	without := cost()
	require.Equal(t, without, cost(redlock.WithTrace(&redlock.Trace{})), "no hook is set")
	rare := &redlock.Trace{Node: func(redlock.NodeEvent) {}}
	require.Equal(t, without, cost(redlock.WithTrace(rare)), "a lock that goes well does not call it")
	every := cost(redlock.WithTrace(everyHook()))
	require.Greater(t, every, without, "events are allocated, or this counts nothing")
	const notUsedAgain = 3 // what a hook has seen
	require.LessOrEqual(t, every, without+34+notUsedAgain, "an event that begins is not copied")
}

func BenchmarkLockAndUnlock(b *testing.B) {
	for name, opts := range map[string][]redlock.ClientOption{
		"no-trace":    nil,
		"empty-trace": {redlock.WithTrace(&redlock.Trace{})},
		"every-hook":  {redlock.WithTrace(everyHook())},
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
