package main

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// changed runs redlock members with these arguments, and returns the masters that its last step shows.
func changed(t *testing.T, nodes []string, args ...string) (masters []string) {
	r := toolSays(slices.Concat([]string{"members"}, args, []string{"--json", "--restart-guard", "1ms", "--nodes", strings.Join(nodes, ",")})...)
	require.Zero(t, r.code, "%v: %s%s", args, r.out, r.log)
	lines := strings.Split(strings.TrimSpace(r.out), "\n")
	var last changeStep
	require.NoError(t, json.Unmarshal([]byte(lines[len(lines)-1]), &last))
	require.Equal(t, "done", last.Step)
	return last.Masters
}

// A client that was given the first three masters locks all the while.
func TestMembersChangesTheMastersWhileAClientLocks(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 5)
	urls := nodes.URLs()
	var addresses []string
	for _, url := range urls {
		addresses = append(addresses, strings.TrimPrefix(url, "redis://"))
	}
	client := testclient.Open(t, urls[:3], redlock.WithTTL(2*time.Second), redlock.WithNodeTimeout(800*time.Millisecond), redlock.WithRestartGuard(time.Millisecond))
	done := make(chan struct{})
	locked := make(chan int)
	go func() {
		n, token := 0, int64(0)
		defer func() { locked <- n }()
		for ; ; n++ {
			select {
			case <-done:
				return
			default:
			}
			ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
			lease, err := client.Mutex("x").Lock(ctx)
			cancel()
			if !assert.NoError(t, err) {
				return
			}
			assert.Greater(t, lease.Token(), token)
			token = lease.Token()
			_ = lease.Unlock(context.Background()) // on a busy machine it may lack a majority
			time.Sleep(20 * time.Millisecond)
		}
	}()
	sorted := func(list ...string) []string { return slices.Sorted(slices.Values(list)) }
	require.Equal(t, sorted(addresses[:4]...), changed(t, urls[:3], "add", addresses[3]))
	require.Equal(t, sorted(addresses[1:4]...), changed(t, urls[:3], "remove", addresses[0]))
	require.Equal(t, sorted(addresses[2:5]...), changed(t, urls[1:4], "replace", addresses[1], addresses[4]))
	require.Equal(t, sorted(addresses[2:5]...), changed(t, urls[2:5], "replace", addresses[1], addresses[4]), "it is done")
	close(done)
	require.Greater(t, <-locked, 20)
	require.Equal(t, sorted(addresses[2:5]...), client.Members())
}

func TestMembersRefusesWhatWouldEndLocks(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 4)
	urls := nodes.URLs()
	one := strings.TrimPrefix(urls[0], "redis://")
	given := strings.Join(urls[:1], ",")
	require.Zero(t, toolSays("run", "job", "--nodes", given, "--restart-guard", "1ms", "--ttl", "1s", "--", "true").code)
	r := toolSays("members", "remove", one, "--nodes", given)
	assert.Equal(t, codeUsage, r.code)
	assert.Contains(t, r.log, "it is the only master")
	other := strings.Join(urls[1:], ",")
	require.Zero(t, toolSays("run", "job", "--nodes", other, "--restart-guard", "1ms", "--ttl", "1s", "--", "true").code)
	r = toolSays("members", "add", one, "--nodes", other, "--restart-guard", "1ms")
	assert.Equal(t, codeConfig, r.code, r.out)
	assert.Contains(t, r.log, "it has the data of a master of another list")
	two := redlocktest.Start(t, 1).URLs()
	require.Equal(t, 2, len(changed(t, urls[:1], "add", strings.TrimPrefix(two[0], "redis://"))), "a second master")
	for _, address := range []string{"redis://a:6379", "a", "a:6379/1"} {
		assert.Equal(t, codeUsage, toolSays("members", "add", address, "--nodes", given).code, address)
	}
}
