package admission_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Beginnings of a list that something is in the way of. Readers who attacked the protocol found these schedules.

// named makes a client that calls the nodes by these names.
func named(net *testnet.Net, names ...string) *redlock.Client {
	pools := make([]redlock.Pool, len(names))
	for i, name := range names {
		pools[i] = redlock.DialPool(net.Nodes[i].DialContext, redlock.DialConfig{Addr: name})
	}
	c, err := redlock.New(pools, append([]redlock.ClientOption{redlock.WithLogger(nil), testnet.WithClock(net.Clock.Now)}, shortGuard...)...)
	require.NoError(net.T, err)
	net.Add(c)
	return c
}

// use has a client get a lock, and release it.
func use(net *testnet.Net, c *redlock.Client) {
	require.NoError(net.T, net.Must(c.Mutex("x").Lock(net.T.Context())).Unlock(net.T.Context()))
}

// restart has all servers come back with their data.
func restart(net *testnet.Net) {
	for _, n := range net.Nodes {
		n.Restart(n.Snapshot())
	}
}

// Three servers are wiped, two come back with their data, and answer late what they remember of a lease. Since they remember a
// list, the cluster is not new.
func TestClusterThatRemembersItsListIsNotNew(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, pools := clientOf(net, []int{0, 1, 2, 3, 4})
		held := net.Must(c.Mutex("x", redlock.WithTTL(time.Minute)).Lock(t.Context()))
		time.Sleep(time.Second)
		testnet.Hold(pools[3:], true)
		defer testnet.Hold(pools[3:], false)
		for i, n := range net.Nodes {
			if i < 3 {
				n.Redis.FlushAll()
				continue
			}
			n.Restart(n.Snapshot())
			n.Override = func(cmd string, args []string) string {
				if cmd == "GET" && args[0] == protocol.NewestKey {
					return "ERR late"
				}
				return ""
			}
		}
		next, _ := clientOf(net, []int{0, 1, 2, 3, 4})
		requireNoSecond(t, next, held, time.Minute)
	})
}

// Two clients call new servers by other names, in another order: each seals one that the other one seals last.
func TestClientsWithOtherNamesForTheServersBeginOneList(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		x := named(net, "a", "b", "c")
		y := named(net, "z", "y", "x")
		time.Sleep(30 * time.Second)
		use(net, x)
		use(net, y)
	})
}

// A client may not seal one of the servers.
func TestClientThatCannotSealLetsOthersBegin(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		first := ""
		net.Nodes[2].Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if n.Label(cmd, args) != "seal" || len(args) < 7 {
					return ""
				}
				if first == "" {
					first = args[6]
				}
				if args[6] == first {
					return "NOPERM No permissions to access a key"
				}
				return ""
			}
		})
		x, _ := clientOf(net, []int{0, 1, 2})
		time.Sleep(4 * time.Second)
		require.ErrorContains(t, x.Ping(t.Context()), "cannot be sealed: NOPERM")
		y, _ := clientOf(net, []int{0, 1, 2})
		time.Sleep(30 * time.Second)
		use(net, y)
	})
}

// All servers come back with their data, and one of them cannot write.
func TestQuorumThatRemembersItsListBeginsBesideAFullServer(t *testing.T) {
	for _, full := range []int{0, 2} {
		for _, probes := range []bool{false, true} {
			t.Run(fmt.Sprint(full, probes), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					c, _ := clientOf(net, []int{0, 1, 2})
					use(net, c)
					refused := []string{"look", "admit", "seal", "set", "acquire", "hset"}
					if !probes {
						refused = append(refused, "probe")
					}
					net.Nodes[full].Refuse("OOM command not allowed when used memory > 'maxmemory'.", refused...)
					restart(net)
					next, _ := clientOf(net, []int{0, 1, 2})
					time.Sleep(time.Minute)
					use(net, next)
				})
			})
		}
	}
}

// The servers come back with their data, and one of them, or the only one, has a new name in the clients' settings.
func TestServersWithNewNamesComeBack(t *testing.T) {
	for _, names := range [][2][]string{{{"a", "b", "c"}, {"a", "b", "c.new"}}, {{"a"}, {"a.new"}}} {
		t.Run(fmt.Sprint(names), func(t *testing.T) {
			testnet.InBubble(t, len(names[0]), func(t *testing.T, net *testnet.Net) {
				before := named(net, names[0]...)
				use(net, before)
				after := named(net, names[1]...)
				use(net, after)
				require.NoError(t, before.Close())
				require.NoError(t, after.Close())
				restart(net)
				after = named(net, names[1]...)
				time.Sleep(time.Minute)
				use(net, after)
			})
		})
	}
}
