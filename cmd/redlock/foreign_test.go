package main

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/loginreply"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// attack is text that clears a terminal, forges a line, and writes from right to left.
const attack = "x\x1b[2J\nother: free \u202e\u009b\xff"

// requireHarmless checks that all that was printed is printable.
func requireHarmless(t *testing.T, printed string) {
	t.Helper()
	assert.NotRegexp(t, `[\x00-\x09\x0b-\x1f\x7f-\x9f\x{202e}]`, printed)
	assert.NotRegexp(t, `(?m)^other: free`, printed)
	assert.NotContains(t, printed, "\xff")
}

func TestInspectAndUnlockQuoteOwnersAndLabels(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job", redlock.WithOwnerLabel(attack), redlock.WithTTL(20*time.Second))
	client := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel(attack))
	go client.Mutex("job").Lock(t.Context()) // waits until the client closes, or the lock is broken
	const shown = `"x\x1b[2J\nother: free \u202e\u009b\xff"`
	var r result
	eventually(t, func() bool {
		r = call(nodes, "inspect", "job")
		return strings.Contains(r.out, "waiting: 1")
	}, "in the queue")
	requireHarmless(t, r.out+r.log)
	assert.Contains(t, r.out, "job: held by "+shown+" for ")
	assert.Contains(t, r.out, "1. "+shown+", waiting for")
	assert.Contains(t, r.out, "  "+shown+" ("+lease.Owner()[:6]+"…)")

	assert.Equal(t, strconv.Quote(lease.Owner()), inspectJSON(t, nodes, "job").Holders[0].Owner)

	r = unlock(nodes, "--force", "job")
	require.Zero(t, r.code, r.log)
	requireHarmless(t, r.out+r.log)
	assert.Contains(t, r.out, "It was held by "+shown+" (")

	r = call(nodes, "inspect", attack)
	requireHarmless(t, r.out+r.log)
	assert.Contains(t, r.out, shown+": free")
	requireHarmless(t, unlock(nodes, "--force", attack).out)
}

func TestRunQuotesTheHolderThatItWaitsFor(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "job", redlock.WithOwnerLabel(attack))
	r := call(nodes, "run", "job", "--no-wait", "--", "true")
	assert.Equal(t, codeHeld, r.code)
	requireHarmless(t, r.log)

	text := waitOnce(t, nodes, &runFlags{}, "job")
	requireHarmless(t, text)
	assert.Contains(t, text, `"x\x1b[2J\nother: free \u202e\u009b\xff" holds it`)
}

func TestInspectNamesTheHolderOfAnEmptyValue(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	for _, url := range nodes.URLs() {
		conn, err := redis.DialURL(url)
		require.NoError(t, err)
		defer conn.Close()
		_, err = conn.Do("SET", "redlock:job", "", "EX", 60)
		require.NoError(t, err)
		_, err = conn.Do("SET", "redlock:endless", "") // as no client of this library does
		require.NoError(t, err)
	}
	r := call(nodes, "inspect", "job", "endless")
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "job: held by (an empty value), at 3 of 3 nodes, for another")
	assert.Contains(t, r.out, "endless: held by (an empty value), at 3 of 3 nodes, without an end\n")
	assert.Regexp(t, `node 0 .*  \(an empty value\)  (1m0s|5\d\.\ds)  `, r.out)
	assert.Regexp(t, `node 0 .*  \(an empty value\)  no end  `, r.out)
	r = unlock(nodes, "--force", "endless")
	assert.Contains(t, r.out, "It was held by (an empty value) without an end.")
}

func TestNoCommandPrintsEscapeSequencesOfAServer(t *testing.T) {
	server := startRudeServer(t, "-NOPERM \x1b[2J\x07\u202e\u009b\rother: free\r\n")
	for _, command := range []string{
		"inspect job", "doctor --for 0s", "run job --wait 30s -- true", "unlock --force job", "bench --for 100ms --ttl 1s",
	} {
		const free = `\x1b[2J\a\u202e\u009b\rother: free`
		for url, shown := range map[string]string{
			"redis://" + server: free, "redis://" + server + "/1": free, "redis://:pw@" + server: "NOPERM (" + loginreply.Notice + ")",
		} {
			var out bytes.Buffer
			var log lockedBuffer
			assert.NotZero(t, execute(append([]string{"--nodes", url, "-v"}, strings.Fields(command)...), &out, &log))
			assert.Contains(t, out.String()+log.String(), shown, command)
			requireHarmless(t, out.String()+log.String())
		}
	}
}

func TestBenchShowsFailuresWithoutEscapeSequences(t *testing.T) {
	failure := errors.New(attack)
	nodes := []*nodeFacts{{Node: attack, err: failure, Error: attack}}
	for _, b := range []*bench{
		{failed: 1, lastFailure: failure},
		{failed: 1, lastFailure: failure, lock: []time.Duration{1}, unlock: []time.Duration{1}},
	} {
		var out strings.Builder
		b.write(&out, false, nodes)
		requireHarmless(t, out.String())
		assert.Contains(t, out.String(), `x\x1b[2J\nother: free`)
	}
}

func TestDoctorPrintsNoEscapeSequencesOfServers(t *testing.T) {
	f := &nodeFacts{Node: attack, Version: attack, Role: attack, Eviction: attack, host: attack, RDB: "off", AOF: "off",
		info: map[string]string{"master_host": attack}}
	x := &examination{Nodes: []*nodeFacts{f, f, f}, Quorum: 2}
	x.judge()
	var out strings.Builder
	x.write(&out, false)
	requireHarmless(t, out.String())
	assert.Contains(t, out.String(), `its maxmemory-policy is x\x1b[2J`)
}

// startRudeServer starts a server that answers every command with the same bytes.
func startRudeServer(t *testing.T, reply string) string {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() { // ends with the listener
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go answerRudely(conn, reply)
		}
	}()
	return listener.Addr().String()
}

// answerRudely answers until the client closes.
func answerRudely(conn net.Conn, reply string) {
	defer conn.Close()
	chunk := make([]byte, 1<<16)
	for {
		n, err := conn.Read(chunk)
		if err != nil {
			return
		}
		commands := bytes.Count(chunk[:n], []byte("\n*"))
		if chunk[0] == '*' {
			commands++
		}
		fmt.Fprint(conn, strings.Repeat(reply, commands))
	}
}
