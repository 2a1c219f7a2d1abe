//go:build unix

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestUnlockOfANameThatNobodyHoldsChangesNothing(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	before := call(nodes, "inspect", "job").out // with the fencing counters
	for _, args := range [][]string{{"unlock", "--force", "job"}, {"unlock", "--force", "--permits", "job"}} {
		r := call(nodes, args...)
		assert.Equal(t, codeFree, r.code, "%q: %s", args, r.log)
		assert.Contains(t, r.log, `"job"`)
		assert.Contains(t, r.log, "nothing was changed")
		assert.Empty(t, r.out)
	}
	assert.Equal(t, before, call(nodes, "inspect", "job").out)
}

func TestUnlockOfASemaphoresNameNamesPermits(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := permits(t, nodes, 2, "worker")
	r := unlock(nodes, "--force", "job")
	assert.Equal(t, codeUsage, r.code)
	assert.Contains(t, r.log, `"job" is a semaphore`)
	assert.Contains(t, r.log, "--permits")
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

func TestAgeIsByTheHoldersClockAndThisOne(t *testing.T) {
	assert.Equal(t, []string{"-", "0s"}, []string{age(time.Time{}), age(time.Now().Add(time.Hour))})
	assert.Equal(t, " for 41m7s", heldFor(time.Now().Add(-41*time.Minute-7*time.Second)))
}

func TestLockIsHeldSinceTheFirstOfItsReaders(t *testing.T) {
	first, later := time.Unix(1_800_000_000, 0), time.Unix(1_800_000_007, 0)
	readers := []redlock.ShareStatus{{Since: later, Remaining: 1}, {Since: first, Remaining: 1}, {Remaining: 1}, {Since: first.Add(-time.Hour)}}
	assert.Equal(t, first, heldSince(redlock.Status{Readers: readers}), "one has no clock, and one has no majority")
	assert.Equal(t, later, heldSince(redlock.Status{Holder: "a", Since: later, Readers: readers}))
	assert.Zero(t, heldSince(redlock.Status{Holder: "a"}))
}

func TestInspectShowsSinceOfEachReaderAndPermitAndOfNoOtherProgram(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	keep(t, share(t, nodes, "catalog", "one"))
	permits(t, nodes, 1, "two")
	for _, url := range nodes.URLs() {
		conn, err := redis.DialURL(url)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Do("SET", "redlock:theirs", "their value", "EX", 60)
		require.NoError(t, err)
	}
	r := call(nodes, "inspect", "catalog", "job", "theirs")
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `1\. one \(\w{6}…\) for \d+s, at 3 nodes`, r.out)
	assert.Regexp(t, `slot \d: two \(\w{6}…\) for \d+s, at 3 nodes`, r.out)
	assert.Contains(t, r.out, "theirs: held by their value, at 3 of 3 nodes")
	assert.NotContains(t, r.out, "by the holder's clock")
	assert.Regexp(t, `(?m)^theirs +their value +- +`, call(nodes, "ls", "theirs").out)

	for _, name := range []string{"theirs", "catalog", "job"} {
		assert.Equal(t, name == "theirs", inspectJSON(t, nodes, name).Holders[0].Since.IsZero(), name)
	}
}
