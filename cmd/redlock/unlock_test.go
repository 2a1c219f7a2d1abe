//go:build unix

package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// countAt returns the fencing counter that inspect --json shows.
func countAt(nodes *redlocktest.Nodes, name string) string {
	return call(nodes, "inspect", "--json", name).out
}

func TestUnlockOfANameThatNobodyHoldsChangesNothing(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	before := countAt(nodes, "job")
	for _, args := range [][]string{{"unlock", "--force", "job"}, {"unlock", "--force", "--permits", "job"}} {
		r := call(nodes, args...)
		assert.Equal(t, codeFree, r.code, "%q: %s", args, r.log)
		assert.Contains(t, r.log, `"job"`)
		assert.Contains(t, r.log, "nothing was changed")
		assert.Empty(t, r.out)
	}
	assert.Equal(t, before, countAt(nodes, "job"))
}

func TestUnlockOfASemaphoresNameNamesPermits(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := permits(t, nodes, 2, "worker")
	before := countAt(nodes, "job")
	r := unlock(nodes, "--force", "job")
	assert.Equal(t, codeUsage, r.code)
	assert.Contains(t, r.log, `"job" is a semaphore`)
	assert.Contains(t, r.log, "--permits")
	assert.NotEmpty(t, before)
	assert.True(t, lease.Valid())
	r = unlock(nodes, "--force", "--permits", "job")
	assert.Zero(t, r.code, r.log)

	hold(t, nodes, "other")
	r = unlock(nodes, "--force", "--permits", "other")
	assert.Equal(t, codeFree, r.code)
	assert.Contains(t, r.log, "without --permits")
}

func TestUnlockAndAskShowTheWholeOwnerWithVerbose(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job")
	for _, command := range [][]string{{"ask", "job"}, {"unlock", "--node-timeout", "1s", "--force", "job"}} {
		for _, verbose := range []bool{false, true} {
			args := command
			if verbose {
				args = append([]string{"-v"}, command...)
			}
			if command[0] == "unlock" && verbose {
				lease = hold(t, nodes, "job") // the first one was broken
			}
			r := call(nodes, args...)
			assert.Zero(t, r.code, r.log)
			assert.Contains(t, r.out, "held by the holder (")
			assert.Equal(t, verbose, strings.Contains(r.out, lease.Owner()), r.out)
		}
	}
}

func TestLossShowsTheWholeOwnerWithDetails(t *testing.T) {
	const owner = "ABCDEFGHIJKLMNOPQRSTUVWXYZ@deploy"
	lost := &redlock.LostError{Reason: redlock.LostRevoked, Holder: owner}
	assert.Contains(t, lossOf(lost, false), "held by deploy (ABCDEF…) now")
	assert.Contains(t, lossOf(lost, true), "held by deploy ("+owner+") now")
}
