package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestTopPrintsOnceWhereThereIsNoTerminal(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := call(nodes, "top")
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "Nothing is locked, and nobody waits.")
	keep(t, hold(t, nodes, "backup", redlock.WithOwnerLabel("cron-7:88")))
	keep(t, hold(t, nodes, "a\x1b[2J\nname\u202e"))
	r = call(nodes, "top")
	require.Zero(t, r.code, r.log)
	assert.True(t, strings.HasPrefix(r.out, "Locks are available: 3 of 3 masters vote, 1 more may fail."), r.out)
	assert.Regexp(t, `(?m)^ +backup +cron-7:88 +\d+s +\d[\d.]*s .*●●●`, r.out)
	assert.Contains(t, r.out, `"a\x1b[2J\nname\u202e"`)
	assert.NotContains(t, r.out, "\x1b")
	r = call(nodes, "top", "back*")
	assert.NotContains(t, r.out, "name")
	assert.Contains(t, r.out, "backup")
	assert.Equal(t, codeUsage, call(nodes, "top", "").code)
	assert.Equal(t, codeUsage, call(nodes, "top", "a", "b").code)
}

func TestTopPrintsTheCausesWithoutAQuorum(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	keep(t, hold(t, nodes, "backup"))
	nodes.Stop(0)
	nodes.Stop(2)
	r := call(nodes, "--node-timeout", "100ms", "top")
	assert.Equal(t, codeNoQuorum, r.code, r.log)
	assert.True(t, strings.HasPrefix(r.out, "Locks are not available: 1 of 3 masters vote, and 2 must."), r.out)
	assert.Contains(t, r.out, "→ Start the server")
	assert.Contains(t, r.out, "backup")
}

func TestTopTakesALockFromTheHolderThatWasShown(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "backup")
	b := breaker{testclient.Open(t, nodes.URLs(), redlock.WithNodeTimeout(time.Second)), false}
	_, err := b.unlock(t.Context(), "backup", []string{"ANOTHER@owner"})
	require.ErrorContains(t, err, "it has another holder by now, the holder: nothing was changed")
	require.True(t, lease.Valid())
	done, err := b.unlock(t.Context(), "backup", []string{"ANOTHER@owner", lease.Owner()})
	require.NoError(t, err)
	assert.Regexp(t, `^backup: broken. It was held by the holder \(.*\) for another .* The token \d+ is greater`, done)
	_, err = b.unlock(t.Context(), "backup", []string{lease.Owner()})
	require.ErrorContains(t, err, "nobody holds the lock")
}
