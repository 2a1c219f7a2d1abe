//go:build unix

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestAgeIsByTheHoldersClockAndThisOne(t *testing.T) {
	now := time.Now()
	for since, want := range map[time.Time]string{
		{}: "-", now: "0s", now.Add(time.Hour): "0s", now.Add(-12*time.Second - 500*time.Millisecond): "12s", now.Add(-41*time.Minute - 7*time.Second): "41m",
	} {
		assert.Equal(t, want, age(since))
	}
	assert.Equal(t, " for 41m", heldFor(now.Add(-41*time.Minute-7*time.Second)))
	assert.Empty(t, heldFor(time.Time{}))
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

	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(call(nodes, "inspect", "--json", "theirs").out), &v))
	assert.NotContains(t, v, "since")
	require.NoError(t, json.Unmarshal([]byte(call(nodes, "inspect", "--json", "catalog").out), &v))
	assert.Contains(t, v["readers"].([]any)[0], "since")
	require.NoError(t, json.Unmarshal([]byte(call(nodes, "inspect", "--json", "job").out), &v))
	assert.Contains(t, v["permits"].([]any)[0], "since")
}
