package integration

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/redlockweb"
)

// refusalState is a state in which a server answers, and grants no lock.
type refusalState struct {
	name, code string // of the finding of doctor
	says       string // in what clients show, as a pattern: servers have texts of their own
	remedy     string // in what all of them show
	state      string // as NodeStats
	logs       string // what the log says; "": says
	short      bool
	restarts   bool // it forgets its locks
	fall       func(t *testing.T, n *cluster.Node)
	recover    func(t *testing.T, n *cluster.Node)
}

func set(name, value string) func(t *testing.T, n *cluster.Node) {
	return func(t *testing.T, n *cluster.Node) { n.SetConfig(t, name, value) }
}

func refusalStates() []refusalState {
	return []refusalState{
		{name: "OOM", code: "full", says: "OOM", remedy: "raise maxmemory", state: "refusing", short: true,
			fall: set("maxmemory", "1"), recover: set("maxmemory", "0")},
		{name: "MISCONF, the snapshot", code: "save-fails", says: "MISCONF", remedy: "disk", state: "refusing",
			fall: failSnapshots, recover: mendSnapshots},
		{name: "MISCONF, the AOF", code: "aof-fails", says: "MISCONF", remedy: "disk", state: "refusing", restarts: true,
			fall: failAOF, recover: set("appendonly", "no")},
		{name: "NOREPLICAS", code: "no-replicas", says: "NOREPLICAS", remedy: "min-replicas-to-write 0", state: "refusing",
			fall: set("min-replicas-to-write", "1"), recover: set("min-replicas-to-write", "0")},
		{name: "NOPERM", code: "no-rights", says: "may not call set|run the 'set' command", remedy: "rights.md", state: "unfit",
			fall:    func(t *testing.T, n *cluster.Node) { n.Do(t, "ACL", "SETUSER", "default", "-set") },
			recover: func(t *testing.T, n *cluster.Node) { n.Do(t, "ACL", "SETUSER", "default", "+set") }},
		{name: "READONLY", code: "replica", says: "replica", remedy: "master", state: "unfit",
			fall:    func(t *testing.T, n *cluster.Node) { n.FollowOther(t, n) },
			recover: func(t *testing.T, n *cluster.Node) { n.Lead(t) }},
		{name: "BUSY", code: "busy", says: "BUSY", remedy: "SCRIPT KILL", state: "refusing",
			fall: runEndlessScript, recover: func(t *testing.T, n *cluster.Node) { n.Do(t, "SCRIPT", "KILL") }},
		{name: "LOADING", code: "loading", says: "LOADING", remedy: "ait until", state: "down", logs: "a node is down", restarts: true,
			fall:    func(t *testing.T, n *cluster.Node) { n.RestartLoading(t, 60*time.Second) },
			recover: func(t *testing.T, n *cluster.Node) { n.FinishLoading(t) }},
		{name: "a command that was renamed", code: "unknown-command", says: "nknown command", remedy: "rename-command", state: "unfit", restarts: true,
			fall:    func(t *testing.T, n *cluster.Node) { n.RestartWith(t, `rename-command EVALSHA ""`) },
			recover: func(t *testing.T, n *cluster.Node) { n.Restart(t) }},
	}
}

// filesOf returns the directory of the server's files, and the name of its snapshot.
func filesOf(t *testing.T, n *cluster.Node) (dir, snapshot string) {
	settings, err := redis.StringMap(n.Do(t, "CONFIG", "GET", "d[ib][rf]*"), nil)
	require.NoError(t, err)
	if _, err := os.Stat(settings["dir"]); err != nil {
		t.Skip("the servers' files are not on this machine")
	}
	return settings["dir"], settings["dbfilename"]
}

// failSnapshots has a snapshot fail: a directory has the name of its file.
func failSnapshots(t *testing.T, n *cluster.Node) {
	dir, snapshot := filesOf(t, n)
	inTheWay := filepath.Join(dir, snapshot)
	require.NoError(t, os.RemoveAll(inTheWay))
	require.NoError(t, os.Mkdir(inTheWay, 0o700))
	t.Cleanup(func() { _ = os.Remove(inTheWay) })
	n.SetConfig(t, "save", "3600 1")
	saves(t, n, "err")
}

// mendSnapshots has a snapshot succeed: else the server would refuse all writes as soon as another test has it save some.
func mendSnapshots(t *testing.T, n *cluster.Node) {
	n.SetConfig(t, "save", "")
	dir, snapshot := filesOf(t, n)
	require.NoError(t, os.Remove(filepath.Join(dir, snapshot)))
	saves(t, n, "ok")
}

// saves has the server make a snapshot, and expects its status.
func saves(t *testing.T, n *cluster.Node, status string) {
	n.Do(t, "BGSAVE")
	require.True(t, eventually(soon, func() bool {
		info, err := redis.String(n.Do(t, "INFO", "persistence"), nil)
		return err == nil && strings.Contains(info, "rdb_last_bgsave_status:"+status)
	}))
}

// failAOF restarts the server with an AOF on a disk that is full.
func failAOF(t *testing.T, n *cluster.Node) {
	dir, _ := filesOf(t, n)
	log := filepath.Join(dir, "appendonlydir")
	require.NoError(t, os.Mkdir(log, 0o700))
	file := filepath.Join(log, "appendonly.aof.1.incr.aof")
	if version, err := redis.String(n.Do(t, "INFO", "server"), nil); err == nil && strings.Contains(version, "redis_version:6.") {
		file = filepath.Join(dir, "appendonly.aof")
	}
	t.Cleanup(func() { _, _ = os.Remove(file), os.RemoveAll(log) })
	if err := os.Symlink("/dev/full", file); err != nil {
		t.Skip(err)
	}
	n.RestartWith(t, "appendonly yes")
	conn, err := redis.DialURL(cluster.Nodes{n}.URLs()[0])
	require.NoError(t, err)
	defer conn.Close()
	if !eventually(soon, func() bool {
		_, _ = conn.Do("SET", "x", "a write that it may accept", "PX", 1)
		_, err := conn.Do("PING")
		return err != nil
	}) {
		t.Skip("this server's AOF has other files")
	}
}

// runEndlessScript has the server run a script until SCRIPT KILL.
func runEndlessScript(t *testing.T, n *cluster.Node) {
	n.SetConfig(t, "lua-time-limit", "10")
	conn, err := redis.DialURL(cluster.Nodes{n}.URLs()[0], redis.DialReadTimeout(0))
	require.NoError(t, err)
	require.NoError(t, conn.Send("EVAL", "while true do end", 0))
	require.NoError(t, conn.Flush())
	t.Cleanup(func() { _ = conn.Close() })
	other, err := redis.DialURL(cluster.Nodes{n}.URLs()[0])
	require.NoError(t, err)
	defer other.Close()
	require.True(t, eventually(soon, func() bool {
		_, err := other.Do("PING")
		return err != nil && strings.HasPrefix(err.Error(), "BUSY")
	}))
}

// Two of three servers answer, and grant no lock. Everything that says whether locks are available says that they are
// not, why, and what to do; and when the servers are well again, that they are.
func TestNothingIsGreenWhereServersAnswerAndRefuse(t *testing.T) {
	for _, s := range refusalStates() {
		t.Run(s.name, func(t *testing.T) {
			t.Parallel()
			if !s.short {
				notInShort(t)
			}
			nodes := cluster.Use(t, 3)
			lines := &testnet.Journal{}
			opts := []redlock.ClientOption{redlock.WithLogger(slog.New(slog.NewTextHandler(lines, nil))), redlock.WithNodeTimeout(1400 * time.Millisecond)}
			guard := 3 * time.Second
			if s.restarts {
				guard = 0 // else it waits for longer than a test should
			}
			opts = append(opts, redlock.WithTTL(3*time.Second), redlock.WithRestartGuard(guard))
			client := openClient(t, nodes.URLs(), opts...)
			awaitAllVotes(t, client, nodes)
			require.True(t, eventually(soon, func() bool { return countUp(client) == 3 }))
			page := redlockweb.New(client)
			t.Cleanup(func() { _ = page.Close() })

			for _, n := range nodes[:2] {
				s.fall(t, n)
			}
			assertNotGreen(t, client, page, &s)
			assertToolIsNotGreen(t, nodes.URLs(), guard, &s)
			_, err := client.Mutex("name").TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrNoQuorum)
			require.ErrorContains(t, err, s.remedy)
			require.Regexp(t, cmp.Or(s.logs, s.says), lines.String())
			require.Contains(t, lines.String(), "no majority of the nodes votes")

			for _, n := range nodes[:2] {
				s.recover(t, n)
			}
			require.True(t, eventually(soon, func() bool { return client.Ping(t.Context()) == nil && countUp(client) == 3 }))
			require.NoError(t, client.WaitReady(within(t, soon)))
			require.True(t, eventually(soon, func() bool { return strings.Contains(lines.String(), "a majority of the nodes votes again") }))
			require.Equal(t, http.StatusOK, health(page))
			assertUsable(t, client, "name")
			for _, n := range nodes {
				require.Empty(t, n.Get(t, "redlock::look"))
			}
		})
	}
}

// assertNotGreen expects Ping, WaitReady, Stats and /healthz to show the refusal, though no lock was asked for.
func assertNotGreen(t *testing.T, client *redlock.Client, page http.Handler, s *refusalState) {
	t.Helper()
	var err error
	require.True(t, eventually(soon, func() bool { // the first may find how the last connection broke
		err = client.Ping(t.Context())
		return err != nil && regexp.MustCompile(s.says).MatchString(err.Error())
	}), "Ping: %v", err)
	assert.ErrorContains(t, err, s.remedy)
	short, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	assert.ErrorIs(t, client.WaitReady(short), redlock.ErrNoQuorum)
	assert.Equal(t, http.StatusServiceUnavailable, health(page))
	assert.Equal(t, 1, countUp(client))
	assert.True(t, eventually(soon, func() bool { // a new connection finds which other server it is
		nodes := client.Stats().Nodes
		return nodes[0].State == s.state && nodes[1].State == s.state
	}), "%s: %v", s.state, client.Stats().Nodes)
	for _, n := range client.Stats().Nodes[:2] {
		assert.Regexp(t, s.says, n.Err)
		assert.ErrorContains(t, n.Err, s.remedy)
		if s.state == "refusing" {
			assert.WithinDuration(t, time.Now(), n.Since, time.Minute)
		}
	}
}

// assertToolIsNotGreen expects the headline of redlock top, and redlock doctor, to show it.
func assertToolIsNotGreen(t *testing.T, urls []string, guard time.Duration, s *refusalState) {
	t.Helper()
	_, out, log := callTool(t, urls, "top", "--restart-guard", guard.String(), "--node-timeout", "4s")
	assert.Contains(t, out, "Locks are not available: 1 of 3 masters vote, and 2 must.", log)
	assert.Regexp(t, s.says, strings.Join(strings.Fields(out), " "), "in one line")
	assert.NotContains(t, strings.ToLower(out), "start the server")
	found := doctor(t, urls)
	assert.Equal(t, 1, found.code)
	assert.Len(t, found.nodesWith("danger", s.code), 2, "%+v", found)
	assert.Len(t, found.nodesWith("danger", "no-quorum"), 1, "%+v", found)
}

func countUp(client *redlock.Client) (up int) {
	for _, n := range client.Stats().Nodes {
		if n.State == "up" {
			up++
		}
	}
	return up
}

// health returns the status of /healthz.
func health(page http.Handler) int {
	answer := httptest.NewRecorder()
	page.ServeHTTP(answer, httptest.NewRequest(http.MethodGet, "http://localhost/healthz", nil))
	return answer.Code
}
