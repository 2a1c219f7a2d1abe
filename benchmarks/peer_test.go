package main

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
)

func TestEveryPeerLocksExcludesAndUnlocks(t *testing.T) {
	b := tinyBench(t)
	for _, c := range b.peers {
		if !long.Tests() && !representatives(c) {
			continue
		}
		for _, waiting := range []bool{false, true} {
			name := c.name + map[bool]string{true: ", waiting"}[waiting]
			t.Run(name, func(t *testing.T) {
				p, err := b.open(t.Context(), c, b.site(nodes), waiting)
				require.NoError(t, err)
				defer func() { assert.NoError(t, p.peer.close()) }()
				excludes(t, p.peer, "exclude/"+c.name)
			})
		}
	}
}

// representatives are the peers that are tested without REDLOCK_LONG.
var representatives = among(redlockDefault, redlockUnfenced, redsyncOnGoRedis, rueidislockOne, floor)

// excludes locks a name twice over, and tries to get it a second time meanwhile.
func excludes(t *testing.T, p peer, name string) {
	t.Helper()
	for range 2 {
		lock := lockFree(t, p, name)
		assertRefused(t, p, name)
		if e, ok := lock.(extender); ok {
			require.NoError(t, e.Extend(t.Context()))
			assertRefused(t, p, name)
		}
		require.NoError(t, lock.Unlock(t.Context()))
	}
}

// lockFree locks a name that is free. Some peers fail at it on a busy machine, where
// their own time limits end: they are asked again.
func lockFree(t *testing.T, p peer, name string) held {
	t.Helper()
	for deadline := time.Now().Add(soon); ; time.Sleep(20 * time.Millisecond) {
		lock, err := p.lock(t.Context(), name)
		if err == nil {
			return lock
		}
		require.True(t, time.Now().Before(deadline), "the name is free: %v", err)
	}
}

func assertRefused(t *testing.T, p peer, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 60*time.Millisecond)
	defer cancel()
	_, err := p.lock(ctx, name)
	assert.Error(t, err, "the lock is held")
}

func TestThisLibraryAndTheFloorExcludeEachOther(t *testing.T) {
	b := tinyBench(t)
	ours, err := b.open(t.Context(), redlockDefault, b.site(nodes), false)
	require.NoError(t, err)
	defer b.closeAll([]*opened{ours})
	bare, err := b.open(t.Context(), floor, b.site(nodes), false)
	require.NoError(t, err)
	defer b.closeAll([]*opened{bare})
	lease, err := ours.peer.lock(t.Context(), "same")
	require.NoError(t, err)
	assertRefused(t, bare.peer, "same") // so the floor sends what the library sends
	require.NoError(t, lease.Unlock(t.Context()))
}

// The targets are the benchmark's; this bound is looser.
func TestSoakThisLibraryIsFasterThanRedsyncOnRedigo(t *testing.T) {
	soakOnly(t)
	b := tinyBench(t)
	b.peers = []contender{redlockDefault, redsyncOnRedigo}
	peers := b.openAll(t.Context(), b.site(nodes), false, func(contender) bool { return true })
	defer b.closeAll(peers)
	setting := pairsSetting(nodes, manyGoroutines)
	b.drivePeers(t.Context(), "pairs", setting, peers, 3, load{
		goroutines: manyGoroutines, warmUp: 100 * time.Millisecond, length: 400 * time.Millisecond,
	})
	c := atLeast(1.5, "x").ofRatio(b.results, "pairs/s", cell{"pairs", redlockDefault.name, setting},
		cell{"pairs", redsyncOnRedigo.name, setting}, "pairs/s")
	t.Log(c.measured)
	assert.True(t, c.met, c.measured)
	assert.True(t, failureCheck(b.results, "pairs").met)
}
