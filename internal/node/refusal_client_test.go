//go:build !386 && !arm

// Embedded nodes have no numbers beyond 32 bits there, such as an admission has.

package node_test

import (
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const (
	fullServer   = "OOM command not allowed when used memory > 'maxmemory'."
	refusesLine  = `level=WARN msg="redlock: a node answers, and refuses what every lock needs; locks go on while a majority votes"`
	acceptedLine = `level=INFO msg="redlock: a node does what locks need again"`
)

// requireRefusalLines checks how often the log says that a node refuses, and that it does not any more.
func requireRefusalLines(t *testing.T, lines *testnet.Journal, begun, ended int) {
	t.Helper()
	synctest.Wait()
	text := lines.String()
	require.Equal(t, []int{begun, ended}, []int{strings.Count(text, refusesLine), strings.Count(text, acceptedLine)}, text)
}

func forgetScripts(t *testing.T, n *testnet.Node) {
	t.Helper()
	conn := testnet.Dial(t, n)
	_, err := conn.Do("SCRIPT", "FLUSH")
	require.NoError(t, err)
	require.NoError(t, conn.Close())
}

// Nobody locks, and nobody asks: the probe of the admission looks, also where there is no admission.
func TestIdleClientFindsThatANodeRefuses(t *testing.T) {
	for name, guard := range map[string]time.Duration{"guarded": 5 * time.Second, "without a guard": 0} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				var lines testnet.Journal
				var events testnet.Tape
				c := net.NewClient(logTo(&lines), redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(guard), redlock.WithTrace(events.Trace()))
				time.Sleep(time.Minute)
				events.Clear()
				began := time.Now()
				net.Nodes[:1].Refuse(fullServer, "SET", "look")
				time.Sleep(admission.ProbeInterval + time.Second)
				is := c.Stats().Nodes[0]
				require.Equal(t, "refusing", is.State)
				require.ErrorContains(t, is.Err, "OOM")
				require.ErrorContains(t, is.Err, "raise maxmemory")
				require.WithinRange(t, is.Since, began, time.Now())
				require.Equal(t, "up", c.Stats().Nodes[1].State)
				require.NoError(t, c.Ping(t.Context()))
				time.Sleep(time.Minute)
				requireRefusalLines(t, &lines, 1, 0)
				told := events.OfNodes("refusing")
				require.Len(t, told, 1)
				require.ErrorContains(t, told[0].Err, "OOM")

				net.Nodes[:1].Refuse("")
				time.Sleep(admission.ProbeInterval + time.Second)
				require.Equal(t, "up", c.Stats().Nodes[0].State)
				require.Zero(t, c.Stats().Nodes[0].Since)
				requireRefusalLines(t, &lines, 1, 1)
				require.Len(t, events.OfNodes("up"), 1)
				require.Empty(t, events.OfNodes("down"))
				require.Zero(t, net.Nodes[0].Executed("eval"))
			})
		})
	}
}

// A vote shows it at once, and a grant ends it at once: no look is awaited.
func TestVotesShowThatANodeRefuses(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(logTo(&lines))
		net.Nodes[:2].Refuse(fullServer, "SET", "look")
		lease, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Nil(t, lease)
		require.Equal(t, "refusing", c.Stats().Nodes[0].State)
		synctest.Wait()
		requireRefusalLines(t, &lines, 2, 0)
		requireMajorityLines(t, &lines, 1, 0)
		require.ErrorIs(t, c.Ping(t.Context()), redlock.ErrNoQuorum)

		net.Nodes.Refuse("")
		tryLock(t, c.Mutex("x"))
		synctest.Wait()
		for _, n := range c.Stats().Nodes {
			require.Equal(t, "up", n.State)
		}
		requireRefusalLines(t, &lines, 2, 2)
		requireMajorityLines(t, &lines, 1, 1)
	})
}

// Releases and renewals work at a server that is full: that they do proves nothing.
func TestReleaseAtAFullServerProvesNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(c.Mutex("x").TryLock(t.Context()))
		net.Nodes[:1].Refuse(fullServer, "SET", "look")
		net.Must(c.Mutex("y").TryLock(t.Context()))
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		require.Equal(t, "refusing", c.Stats().Nodes[0].State)
	})
}

func TestNodeThatRefusesNowAndThenDoesNotFillTheLog(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(logTo(&lines))
		time.Sleep(time.Second)
		for range 60 { // a minute
			net.Nodes[:1].Refuse(fullServer, "SET", "look")
			require.NoError(t, c.Ping(t.Context()))
			net.Nodes[:1].Refuse("")
			time.Sleep(time.Second)
			require.NoError(t, c.Ping(t.Context()))
		}
		requireRefusalLines(t, &lines, 2, 2)
	})
}

// A right may be missing for one kind of lock or for all. A look tells.
func TestMissingCommandConcernsAllLocksIfALookNeedsIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(logTo(&lines))
		const noRight = "NOPERM this user has no permissions to run this command"
		net.Nodes.Refuse(noRight, "read")
		_, err := c.RWMutex("x").TryRLock(t.Context())
		require.ErrorContains(t, err, "NOPERM")
		time.Sleep(time.Second)
		for _, n := range c.Stats().Nodes {
			require.Equal(t, "up", n.State, "mutexes do not need it")
		}
		requireRefusalLines(t, &lines, 0, 0)

		net.Nodes[:1].Refuse(noRight, "HINCRBY", "look")
		tryLock(t, c.Mutex("x"))
		time.Sleep(time.Second)
		require.Equal(t, "unfit", c.Stats().Nodes[0].State, "a person must act")
		requireRefusalLines(t, &lines, 1, 0)
		net.Nodes.Refuse("")
		time.Sleep(admission.ProbeInterval + time.Second)
		require.Equal(t, "up", c.Stats().Nodes[0].State)
		requireRefusalLines(t, &lines, 1, 1)
	})
}

// The fast path would grant the lock, and no renewal could keep it.
func TestNodeThatLacksACommandDoesNotBeginToVote(t *testing.T) {
	for command, c := range map[string]struct{ refusal, remedy string }{
		"EVALSHA": {"ERR unknown command 'EVALSHA', with args beginning with: 'x'", "rename-command"},
		"look":    {"NOPERM this user has no permissions to run the 'pexpire' command", "rights.md"},
	} {
		for _, guard := range []time.Duration{0, 5 * time.Second} {
			t.Run(fmt.Sprintf("%s, a guard of %v", command, guard), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					var lines testnet.Journal
					net.Nodes[:2].Refuse(c.refusal, command)
					client := net.NewClient(logTo(&lines), redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(guard))
					time.Sleep(30 * time.Second)
					_, err := client.Mutex("x").Lock(t.Context())
					require.ErrorIs(t, err, redlock.ErrNoQuorum)
					require.ErrorContains(t, err, c.remedy)
					require.Zero(t, net.Nodes[0].Executed("hincrby"), "no attempt was sent")
					require.Equal(t, "unfit", client.Stats().Nodes[0].State)
					requireRefusalLines(t, &lines, 2, 0)
					require.NotContains(t, lines.String(), "a node is down", "one line for each node")
					net.Nodes.Refuse("")
					require.ErrorIs(t, client.WaitReady(t.Context()), redlock.ErrNoQuorum, "waiting does not help")
					time.Sleep(time.Minute)
					require.NoError(t, client.WaitReady(t.Context()))
				})
			})
		}
	}
}

func TestPingLoadsTheScriptsThatAServerHasForgotten(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes {
			forgetScripts(t, n)
		}
		require.NoError(t, c.Ping(t.Context()))
	})
}

// A client without work sends the text of no script: neither by its probes nor by its looks. Where the server has
// forgotten the probe, it gets the text once, or not at all where a look comes first and loads all scripts.
func TestIdleClientSendsNoScripts(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var texts, probes, bytes atomic.Int64 // counted by the server's goroutines
		count := func(cmd string, args []string) string {
			if cmd == "EVAL" {
				texts.Add(1)
			}
			if testnet.IsScript(cmd, args, protocol.Probe) {
				probes.Add(1)
			}
			if strings.HasPrefix(cmd, "EVAL") {
				bytes.Add(int64(len(strings.Join(args, " "))))
			}
			return ""
		}
		net.NewClient(redlock.WithRestartGuard(time.Millisecond)) // admission is on
		time.Sleep(time.Minute)
		net.Nodes[0].Set(func(n *testnet.Node) { n.Override = count })
		time.Sleep(time.Minute)
		require.Zero(t, texts.Load())
		require.InDelta(t, 6, probes.Load(), 1)
		require.Less(t, bytes.Load(), int64(3000), "of a minute")
		forgetScripts(t, net.Nodes[0])
		time.Sleep(30 * time.Second)
		require.LessOrEqual(t, texts.Load(), int64(1))
		require.InDelta(t, 9, probes.Load(), 2)
	})
}

// tryLock takes a lock and releases it.
func tryLock(t *testing.T, m *redlock.Mutex) {
	t.Helper()
	lease, err := m.TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}

// requireLoaded expects that each node was sent so many scripts, and clears the logs.
func requireLoaded(t *testing.T, net *testnet.Net, scripts int, when string) {
	t.Helper()
	time.Sleep(time.Second)
	for _, n := range net.Nodes {
		require.Equal(t, scripts, n.Executed("script"), when)
	}
	net.ClearLogs()
}

// A client loads the scripts of a mutex when it connects, and those of another kind of lock when its first lock of
// that kind is made. A script that came too late would be loaded twice.
func TestClientLoadsTheScriptsThatItUses(t *testing.T) {
	mutexes := len(protocol.ForMutexes.Scripts())
	for name, c := range map[string]struct {
		more protocol.Families
		use  func(t *testing.T, c *redlock.Client)
	}{
		"a mutex":        {0, func(t *testing.T, c *redlock.Client) { tryLock(t, c.Mutex("x")) }},
		"a minimum hold": {protocol.ForRests, func(t *testing.T, c *redlock.Client) { tryLock(t, c.Mutex("x", redlock.WithMinHold(ms))) }},
		"readers":        {protocol.ForReaders, func(t *testing.T, c *redlock.Client) { tryLock(t, c.RWMutex("x").RLocker()) }},
		"several names":  {protocol.ForSeveral, func(t *testing.T, c *redlock.Client) { tryLock(t, c.Multi([]string{"x", "y"})) }},
		"permits": {protocol.ForPermits | protocol.ForSeveral, func(t *testing.T, c *redlock.Client) {
			lease, err := c.Semaphore("x", 2).TryAcquire(t.Context(), 1)
			require.NoError(t, err)
			require.NoError(t, lease.Unlock(t.Context()))
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				client, more := net.Client(), len(c.more.Scripts())
				requireLoaded(t, net, mutexes, "by the handshake")
				c.use(t, client)
				requireLoaded(t, net, more, "by the first lock")
				c.use(t, client)
				requireLoaded(t, net, 0, "by the second lock")
				net.Nodes.Cut()
				requireLoaded(t, net, mutexes+more, "by the next handshake")
				c.use(t, client)
				requireLoaded(t, net, 0, "by a lock after it")
			})
		})
	}
}

// The first lock of a kind is made while the client connects: at some time before, in, or after the handshake.
func TestScriptsOfALockThatIsMadeInAHandshakeAreLoaded(t *testing.T) {
	for at := time.Duration(0); at < 300*ms; at += 5 * ms {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			client := net.Client()
			net.Delay(10 * ms)
			requireLoaded(t, net, len(protocol.ForMutexes.Scripts()), "by the first handshake")
			net.Nodes.Cut()
			time.Sleep(at)
			readers := client.RWMutex("x").RLocker()
			time.Sleep(time.Second)
			tryLock(t, readers)
			for _, n := range net.Nodes {
				require.Equal(t, len((protocol.ForMutexes | protocol.ForReaders).Scripts()), n.Executed("script"), "made after %v", at)
			}
		})
	}
}
