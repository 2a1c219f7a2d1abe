package holder_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The token stays known while the observer is cut off, and while a minority answers.
func TestFollowerKeepsTheTermOverAnOutage(t *testing.T) {
	for _, cut := range []int{0, 1} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a := net.Client()
			c, pools := net.CuttableClient()
			f := follow(t, c.Mutex("x"))
			lease := hold(net, f, a)
			testnet.Hold(pools[cut:], true)
			time.Sleep(2 * time.Second)
			testnet.Hold(pools[cut:], false)
			time.Sleep(3 * time.Second)
			f.sees(lease, lease.Token())
			for _, s := range f.seen()[1:] {
				require.False(t, s.err == nil && s.Token == 0, "%v", s)
			}
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

// An owner that only a minority showed is not known: a client asks it when a quorum shows it.
func TestOwnerThatAMinorityShowedIsNotKnown(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a := net.Client()
		c, pools := net.CuttableClient()
		lease := net.Must(a.Mutex("x", announced).Lock(t.Context()))
		time.Sleep(time.Second)
		testnet.Hold(pools[1:], true)
		f := follow(t, c.Mutex("x"))
		time.Sleep(1500 * ms)
		testnet.Hold(pools[1:], false)
		time.Sleep(3 * time.Second)
		f.sees(lease, lease.Token())
		for _, s := range f.seen() {
			require.False(t, s.err == nil && s.Token == 0, "%v", s)
		}
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// slowPool connects slowly, as with TLS and a login.
type slowPool struct{ *testnet.Node }

func (p slowPool) GetContext(ctx context.Context) (redis.Conn, error) {
	time.Sleep(12 * ms)
	return p.Node.GetContext(ctx)
}

func clientOver[P redlock.Pool](net *testnet.Net, pool func(*testnet.Node) P) *redlock.Client {
	var pools []redlock.Pool
	for _, n := range net.Nodes {
		pools = append(pools, pool(n))
	}
	c, err := redlock.New(pools, redlock.WithLogger(nil), redlock.WithRestartGuard(0), testnet.WithClock(net.Clock.Now))
	require.NoError(net.T, err)
	net.Add(c)
	require.NoError(net.T, c.Ping(net.T.Context()))
	return c
}

// A question or an answer that comes before somebody subscribes is lost. The holder is asked again.
func TestHolderIsAskedUntilItCanAnswer(t *testing.T) {
	slow := func(n *testnet.Node) slowPool { return slowPool{n} }
	for name, of := range map[string]func(net *testnet.Net) (a, c *redlock.Client){
		"slow observer": func(net *testnet.Net) (a, c *redlock.Client) { return net.Client(), clientOver(net, slow) },
		"slow holder":   func(net *testnet.Net) (a, c *redlock.Client) { return clientOver(net, slow), net.Client() },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				a, c := of(net)
				net.Delay(2 * ms)
				if name == "slow holder" {
					follow(t, c.Mutex("other"))
					time.Sleep(time.Second)
				}
				lease := net.Must(a.Multi([]string{"x", "y", "z"}, announced).Lock(t.Context()))
				time.Sleep(3 * ms)
				all := []*follower{follow(t, c.Mutex("x")), follow(t, c.Mutex("y")), follow(t, c.Mutex("z"))}
				time.Sleep(2 * time.Second)
				for _, f := range all {
					last := f.last()
					require.Equal(t, []any{lease.Owner(), lease.Token()}, []any{last.Owner, last.Token})
				}
				require.NoError(t, lease.Unlock(t.Context()))
			})
		})
	}
}

// One node is away, and another one has a foreign key. The holder is unknown, but it is not the former one.
func TestFormerHolderIsNotShownWhileTheNextIsUnknown(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		lease := hold(net, f, a)
		net.Nodes[2].Down()
		net.Nodes[2].Cut()
		time.Sleep(time.Second)
		f.sees(lease, lease.Token())
		net.Nodes.Refuse("NOPERM no", "publish") // else a look comes in between
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, net.Nodes[1].Redis.Set("redlock:x", "another program"))
		time.Sleep(2 * time.Second)
		last := f.seen()[len(f.seen())-1]
		require.Equal(t, "another program", last.Owner)
		require.ErrorIs(t, last.err, redlock.ErrNoQuorum)
		net.Nodes[1].Redis.Del("redlock:x")
		time.Sleep(2 * time.Second)
		f.sees(nil, 0)
	})
}

func TestFollowerSeesThatOnlyAShareIsLeft(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		lease := net.Must(a.Mutex("x", announced, redlock.WithReentry()).Lock(t.Context()))
		ctx, cancel := lease.Context(t.Context())
		defer cancel()
		inner := net.Must(a.Mutex("x", announced, redlock.WithReentry()).Lock(ctx))
		require.NoError(t, inner.Unlock(t.Context()))
		require.Error(t, inner.Downgrade(t.Context()))
		share := net.Must(a.RWMutex("x", redlock.WithReentry()).RLock(ctx))
		time.Sleep(200 * ms)
		f.sees(lease, lease.Token())
		late := follow(t, net.Client().Mutex("x"))
		time.Sleep(time.Second)
		late.sees(lease, lease.Token()) // a handle that had ended has taken nothing back
		require.NoError(t, lease.Unlock(t.Context()))
		require.True(t, share.Shared())
		time.Sleep(soon)
		require.True(t, f.last().Shared)
		require.NoError(t, share.Unlock(t.Context()))
	})
}

// A leader that joins a lease which was not announced announces it.
func TestLeaderThatJoinsALeaseIsAnnounced(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		require.NoError(t, a.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			return a.Mutex("x", redlock.WithReentry()).Lead(ctx, func(_ context.Context, l *redlock.Lease) error {
				time.Sleep(soon)
				f.sees(l, l.Token())
				return nil
			})
		}))
	})
}

// A second follower of a lock gets the present state, not what its client knew before. After an outage, the client
// looks at all of its locks at once.
func TestManyLocksAreKnownAtOnce(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		lease := net.Must(a.Mutex("lock 150").Lock(t.Context()))
		var all []*follower
		for i := range 500 {
			all = append(all, follow(t, c.Mutex(fmt.Sprint("lock ", i))))
		}
		time.Sleep(7 * time.Second)
		all[150].sees(lease, 0)
		require.NoError(t, lease.Unlock(t.Context()))
		again := follow(t, c.Mutex("lock 150"))
		time.Sleep(soon)
		require.Len(t, again.seen(), 1)
		again.sees(nil, 0)

		net.Nodes.Freeze()
		time.Sleep(1500 * ms)
		net.Nodes.Thaw()
		time.Sleep(1500 * ms)
		for _, f := range all {
			f.sees(nil, 0)
		}
	})
}

// The user of the documentation may not unsubscribe. That does not end the subscription.
func TestSubscriptionOutlastsARefusalOfItsOtherChannels(t *testing.T) {
	for _, command := range []string{"UNSUBSCRIBE", "SUBSCRIBE"} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := testnet.ListeningClient(t, net)
			net.Nodes.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, _ []string) string {
					if cmd == command {
						return "NOPERM this user has no permissions to run the command"
					}
					return ""
				}
			})
			up := testhook.Engine(c).Queue().Up
			for range 3 {
				lease := net.Must(c.Mutex("x", announced).Lock(t.Context()))
				time.Sleep(time.Second)
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(time.Second)
				require.Equal(t, 3, up().Len())
			}
		})
	}
}

// brittlePool makes connections. Their writes fail if they contain a text.
type brittlePool struct {
	*testnet.Node
	text *atomic.Value
}

type brittleConn struct {
	testnet.Conn
	text *atomic.Value

	mu   sync.Mutex // protects sent
	sent strings.Builder
}

func (p brittlePool) GetContext(ctx context.Context) (redis.Conn, error) {
	c, err := p.Node.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return &brittleConn{Conn: c.(testnet.Conn), text: p.text}, nil
}

func (c *brittleConn) Send(command string, args ...any) error {
	c.mu.Lock()
	fmt.Fprintln(&c.sent, command, args)
	c.mu.Unlock()
	return c.Conn.Send(command, args...)
}

func (c *brittleConn) Flush() error {
	c.mu.Lock()
	sent := c.sent.String()
	c.sent.Reset()
	c.mu.Unlock()
	if text, _ := c.text.Load().(string); text != "" && strings.Contains(sent, text) {
		return syscall.EPIPE
	}
	return c.Conn.Flush()
}

// A write that fails ends all calls of the connection, in the goroutine that writes. So no goroutine that holds a
// lease's lock writes an announcement.
func TestAnnouncementThatCannotBeWrittenBlocksNoLease(t *testing.T) {
	net := testnet.InRealTime(t, 3)
	var text atomic.Value
	c := clientOver(net, func(n *testnet.Node) brittlePool { return brittlePool{n, &text} })
	warm := net.Must(c.RWMutex("w").RLock(t.Context()))
	require.NoError(t, warm.Unlock(t.Context()))
	lease := net.Must(c.Mutex("x", announced).Lock(t.Context()))
	net.Nodes.Mute()
	done := make(chan struct{})
	go func() {
		defer close(done)
		ctx, cancel := context.WithTimeout(context.Background(), 20*ms)
		defer cancel()
		text.Store("PUBLISH [redlock::wake:=redlock:x")
		_ = lease.Downgrade(ctx) // its renewal is not answered
		text.Store("")
		net.Nodes.Set(func(n *testnet.Node) { n.Muting = false })
		_ = lease.Unlock(context.Background())
	}()
	select {
	case <-done:
	case <-time.After(time.Minute):
		require.Fail(t, "the lease is blocked")
	}
}
