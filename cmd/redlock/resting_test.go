//go:build unix

package main

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// A command with --min-hold ends at once, and its lock rests.
func TestMinHoldKeepsTheLockTakenWhenTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	began := time.Now()
	r := start(t, nodes, "run", "job", "--ttl", "10m", "--min-hold", "10m", "--", "sh", "-c", "echo $REDLOCK_OWNER; exit 3").end()
	require.Equal(t, 3, r.code, r.log)
	require.Less(t, time.Since(began), 5*time.Minute)
	var v map[string]any
	require.NoError(t, json.Unmarshal([]byte(call(nodes, "inspect", "--json", "job").out), &v))
	assert.Equal(t, true, v["resting"])
	assert.Equal(t, r.out, v["holder"].(string)+"\n")
	assert.InDelta(t, 600_000, v["remaining_ms"], 120_000)
	assert.Contains(t, call(nodes, "inspect", "job").out, "job: resting after ")

	next := start(t, nodes, "run", "job", "--no-wait", "--", "true").end()
	assert.Equal(t, codeHeld, next.code)
	assert.Contains(t, next.log, "resting after its lease of")
	assert.Contains(t, unlock(nodes, "--force", "job").out, "job: broken. It rested after ")
	assert.Zero(t, start(t, nodes, "run", "job", "--no-wait", "--", "true").end().code)
}

func TestMinHoldIsForOneNameAndAtMostTheTTL(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, flags := range [][]string{{"--min-hold", "-1s", "a"}, {"--min-hold", "11s", "a"}, {"--min-hold", "1s", "--read", "a"}, {"--min-hold", "1s", "a", "b"}} {
		r := start(t, nodes, append(append([]string{"run"}, flags...), "--", "true")...).end()
		assert.Equal(t, codeUsage, r.code, r.log)
		assert.Contains(t, r.log, "--min-hold")
	}
}
