//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/internal/test/testreply"
	"github.com/redlock-go/redlock/redlocktest"
)

// startWatch starts redlock watch, and returns the lines that it prints, and its end.
func startWatch(t *testing.T, nodes *redlocktest.Nodes, args ...string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	return startLines(t, nil, append(append(nodesArgs(nodes), "watch"), args...)...)
}

// startLines starts the tool, and returns the lines that it prints, and its end. The tool logs to log; nil: nowhere.
func startLines(t *testing.T, log io.Writer, args ...string) (cmd *exec.Cmd, lines *bufio.Scanner) {
	t.Helper()
	cmd = exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = log
	out, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, bufio.NewScanner(out)
}

func TestWatchServesThePageUntilASignal(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	lease := hold(t, nodes, "job")
	for _, sig := range []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP} {
		cmd, lines := startWatch(t, nodes, "--http", "localhost:0", "--title", "prod-eu")
		require.True(t, lines.Scan())
		url := lines.Text()
		require.Regexp(t, `^http://127\.0\.0\.1:\d+/$`, url)
		page, err := http.Get(url)
		require.NoError(t, err)
		text, err := io.ReadAll(page.Body)
		require.NoError(t, err)
		require.NoError(t, page.Body.Close())
		require.Contains(t, string(text), "prod-eu")
		require.Contains(t, string(text), "the holder")
		stream, err := http.Get(url + "events") // it does not hold up the end
		require.NoError(t, err)
		require.NoError(t, cmd.Process.Signal(sig))
		_, _ = io.Copy(io.Discard, stream.Body)
		require.NoError(t, stream.Body.Close())
		for lines.Scan() {
		}
		require.NoError(t, cmd.Wait())
	}
	http.DefaultClient.CloseIdleConnections()
	require.True(t, lease.Valid())
}

func TestWatchServesOtherMachinesOnlyIfItIsTold(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, addr := range []string{":0", "0.0.0.0:0", "[::]:0", "8.8.8.8:80"} {
		r := call(nodes, "watch", "--http", addr)
		assert.Equal(t, codeUsage, r.code, addr)
		assert.Contains(t, r.log, "--beyond-loopback", addr)
	}
	for _, args := range [][]string{{"watch"}, {"watch", "--log", "--http", "localhost:0"}, {"watch", "--http", "none"}} {
		assert.Equal(t, codeUsage, call(nodes, args...).code, args)
	}
	_, lines := startWatch(t, nodes, "--http", "0.0.0.0:0", "--beyond-loopback")
	require.True(t, lines.Scan())
}

func TestWatchLogPrintsEachChange(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job\u202e\u009b")
	cmd, lines := startWatch(t, nodes, "--log")
	change := changeUntilItIsSeen(t, nodes, lines) // it has looked: what stood there before is no change
	require.NoError(t, lease.Unlock(t.Context()))
	var c overview.Change
	for c.Name == "" || c.Name == change {
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal([]byte(lines.Text()), &c))
	}
	assert.Contains(t, lines.Text(), `"name":"job\u202e\u009b"`)
	assert.Equal(t, overview.Released, c.Kind)
	assert.Equal(t, "the holder", c.Holder)
	assert.Equal(t, "job\u202e\u009b", c.Name)
	nodes.Stop(1)
	for c.Kind != overview.NodeDown {
		require.True(t, lines.Scan())
		require.NoError(t, json.Unmarshal([]byte(lines.Text()), &c))
	}
	assert.Contains(t, c.Node, "node 1")
	require.NoError(t, cmd.Process.Signal(syscall.SIGHUP))
	for lines.Scan() {
	}
	require.NoError(t, cmd.Wait())
}

// changeUntilItIsSeen acquires and releases a lock until the tool prints a line, and returns the lock's name.
func changeUntilItIsSeen(t *testing.T, nodes *redlocktest.Nodes, lines *bufio.Scanner) (name string) {
	t.Helper()
	const other = "another lock"
	mutex, seen, over := testclient.Open(t, nodes.URLs()).Mutex(other), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(over)
		for {
			select {
			case <-seen:
				return
			case <-time.After(100 * time.Millisecond):
				assert.NoError(t, mutex.Do(t.Context(), func(context.Context, *redlock.Lease) error {
					time.Sleep(time.Second) // longer than between two looks
					return nil
				}))
			}
		}
	}()
	require.True(t, lines.Scan())
	close(seen)
	<-over
	return other
}

// Servers can repeat at a login what watch sent.
func TestNoPageOfWatchRepeatsAPassword(t *testing.T) {
	const secret, most = "Geheim#7 %x", 20
	nodes := redlocktest.Start(t, 2*most+1)
	for i, group := range testreply.Echoes(secret, most) {
		t.Run(strconv.Itoa(i), func(t *testing.T) {
			urls := strings.Join(testreply.Beside(t, nodes.URLs(), group, secret), ",")
			for _, kind := range [][]string{{"--log"}, {"--http", "localhost:0"}} {
				args := append([]string{"--nodes", urls, "--restart-guard", "0", "-v", "--node-timeout", "60ms", "watch"}, kind...)
				var log lockedBuffer
				cmd, lines := startLines(t, &log, args...)
				var shown strings.Builder
				if len(kind) > 1 {
					require.True(t, lines.Scan(), log.String())
					shown.WriteString(pagesOf(t, lines.Text()))
				} else {
					time.Sleep(2 * time.Second) // it has listed, and looked
				}
				require.NoError(t, cmd.Process.Signal(syscall.SIGTERM))
				for lines.Scan() {
					shown.WriteString(lines.Text() + "\n")
				}
				require.NoError(t, cmd.Wait(), log.String())
				requireSecret(t, shown.String()+log.String(), secret, args)
			}
		})
	}
}

// pagesOf returns everything that the page at a URL serves, when it has looked at the masters.
func pagesOf(t *testing.T, url string) (all string) {
	t.Helper()
	client := &http.Client{Timeout: 2 * time.Second} // it ends the stream
	defer client.CloseIdleConnections()
	for _, path := range []string{"events", "", "lock?name=x", "api/locks", "api/nodes", "healthz", "metrics"} {
		got, err := client.Get(url + path)
		require.NoError(t, err)
		text, _ := io.ReadAll(got.Body)
		require.NoError(t, got.Body.Close())
		require.NotEmpty(t, text, path)
		all += string(text)
	}
	return all
}

// What changed while there was no quorum is printed when there is one again.
func TestTheChangeLogBridgesATimeWithoutAQuorum(t *testing.T) {
	at := func(stale bool, state string, names ...string) *overview.Snapshot {
		s := &overview.Snapshot{Taken: time.Now(), Listed: time.Now(), Stale: stale, Masters: []overview.Master{{Node: "node 0", State: state}}}
		for _, n := range names {
			name := []overview.Name{{Raw: n, Text: n}}
			s.Rows = append(s.Rows, &overview.Row{ID: "l" + n, Names: name, Holders: []overview.Holder{{Owner: n, Label: n, Names: name, Holds: true}}})
		}
		return s
	}
	var b strings.Builder
	log := changeLog{out: &b}
	for _, s := range []*overview.Snapshot{at(false, "up", "a"), at(true, "down", "a"), at(true, "down"), at(false, "up", "b")} {
		require.NoError(t, log.write(s))
	}
	var kinds []string
	for line := range strings.Lines(b.String()) {
		var c overview.Change
		require.NoError(t, json.Unmarshal([]byte(line), &c))
		kinds = append(kinds, string(c.Kind)+" "+c.Name)
	}
	require.Equal(t, []string{"node down ", "node up ", "released a", "granted b"}, kinds)
}
