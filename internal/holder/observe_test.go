package holder_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// sight is what a follower got, and when.
type sight struct {
	redlock.Holding
	err error
	at  time.Time
}

// follower observes a lock until the test ends.
type follower struct {
	t    *testing.T
	stop context.CancelFunc
	done chan struct{}

	mu  sync.Mutex // protects all
	all []sight
}

func follow(t *testing.T, m *redlock.Mutex) *follower {
	ctx, cancel := context.WithCancel(t.Context())
	f := &follower{t: t, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(f.done)
		for h, err := range m.Observe(ctx) {
			f.mu.Lock()
			f.all = append(f.all, sight{h, err, time.Now()})
			f.mu.Unlock()
		}
	}()
	t.Cleanup(f.end)
	return f
}

func (f *follower) end() {
	f.stop()
	<-f.done
}

// seen returns what the follower got.
func (f *follower) seen() []sight {
	synctest.Wait()
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.all
}

// last returns what the follower got last, which must be no error.
func (f *follower) last() sight {
	all := f.seen()
	require.NotEmpty(f.t, all, "the follower got nothing")
	require.NoError(f.t, all[len(all)-1].err)
	return all[len(all)-1]
}

// sees requires that the follower has a lease's holder, and a term if that is not 0; nil: nobody.
func (f *follower) sees(l *redlock.Lease, token int64) {
	f.t.Helper()
	last := f.last()
	if l == nil {
		require.Zero(f.t, last.Holding)
		return
	}
	require.Equal(f.t, redlock.Holding{Owner: l.Owner(), Label: l.Label(), Since: l.Since(), Token: token}, last.Holding)
}

var announced = redlock.WithAnnounce()

// hold has a client take x and announce that, and requires that a follower sees it.
func hold(net *testnet.Net, f *follower, a *redlock.Client) *redlock.Lease {
	f.t.Helper()
	lease := net.Must(a.Mutex("x", announced).Lock(f.t.Context()))
	time.Sleep(soon)
	f.sees(lease, lease.Token())
	return lease
}

const soon = 30 * ms // some trips, and the pause between two looks

func TestFollowerSeesEachChangeOfAHolderThatAnnouncesItself(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b, c := net.Client(redlock.WithOwnerLabel("a")), net.Client(redlock.WithOwnerLabel("b")), net.Client()
		net.Delay(ms)
		f, g := follow(t, c.Mutex("x")), follow(t, c.Mutex("x"))
		time.Sleep(soon)
		f.sees(nil, 0)

		first := hold(net, f, a)
		g.sees(first, first.Token())

		next := net.Begin(b.Mutex("x", announced).Lock)
		time.Sleep(time.Second)
		require.NoError(t, first.Unlock(t.Context()))
		second := <-next
		time.Sleep(soon)
		f.sees(second, second.Token())

		text := net.Text(second.Transfer(t.Context()))
		third := net.Must(a.Resume(t.Context(), text, announced))
		time.Sleep(soon)
		f.sees(third, third.Token())
		require.Greater(t, third.Token(), second.Token())

		require.NoError(t, third.Downgrade(t.Context()))
		time.Sleep(soon)
		require.Equal(t, redlock.Holding{Shared: true}, f.last().Holding)
		require.NoError(t, third.Unlock(t.Context()))
		time.Sleep(soon)
		f.sees(nil, 0)

		hold(net, f, b)
		_, err := c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		time.Sleep(soon)
		f.sees(nil, 0)
		for _, s := range f.seen() {
			require.NoError(t, s.err)
		}
	})
}

func TestLeaderIsAnnouncedWithoutAnOption(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		require.NoError(t, a.Mutex("x").Lead(t.Context(), func(_ context.Context, l *redlock.Lease) error {
			time.Sleep(soon)
			f.sees(l, l.Token())
			return nil
		}))
		time.Sleep(soon)
		f.sees(nil, 0)
	})
}

// Of a holder that says nothing only the nodes know. It is seen by the look in turn, and shown when it is no attempt that failed.
func TestFollowerSeesAHolderThatSaysNothing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		time.Sleep(soon)
		lease := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		time.Sleep(2 * time.Second)
		if lease.Shared() {
			require.Equal(t, redlock.Holding{Shared: true}, f.last().Holding)
		} else {
			f.sees(lease, 0)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second + soon)
		f.sees(nil, 0)
		require.Len(t, f.seen(), 3)
	})
}

func TestFollowerSeesTheEndOfAHolderThatDiedWhenItsKeysEnd(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		lease := net.Must(a.Mutex("x", announced, redlock.WithTTL(7500*ms), redlock.WithoutRenewal()).Lock(t.Context()))
		granted := time.Now()
		testhook.Engine(a).Renewer.Forget(testhook.Lease(lease))
		time.Sleep(10 * time.Second)
		f.sees(nil, 0)
		require.WithinDuration(t, granted.Add(7500*ms), f.last().at, 5*ms)
	})
}

// All messages of the change are lost: the follower looks within a second, and asks the holder for its token.
func TestLostMessagesCostAFollowerASecond(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		time.Sleep(soon)
		net.Nodes.Refuse("NOPERM no", "publish")
		lease := net.Must(a.Mutex("x", announced).Lock(t.Context()))
		synctest.Wait()
		f.sees(nil, 0)
		net.Nodes.Set(func(n *testnet.Node) { n.Override = nil })
		time.Sleep(time.Second + soon)
		f.sees(lease, lease.Token())
		net.Nodes.Refuse("NOPERM no", "publish")
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Second + soon)
		f.sees(nil, 0)
	})
}

func TestFollowerWithoutAMajorityGetsWhatTheOthersSay(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		lease := hold(net, f, a)
		net.Nodes[1:].Freeze()
		time.Sleep(2 * time.Second)
		all := f.seen()
		last := all[len(all)-1]
		require.Equal(t, lease.Owner(), last.Owner)
		require.Equal(t, lease.Token(), last.Token)
		var votes *redlock.QuorumError
		require.ErrorAs(t, last.err, &votes)
		require.ErrorIs(t, last.err, redlock.ErrNoQuorum)
		require.Equal(t, []string{"granted", "unknown", "unknown"}, []string{string(votes.Votes[0].Outcome), string(votes.Votes[1].Outcome), string(votes.Votes[2].Outcome)})
		time.Sleep(time.Second)
		require.Len(t, f.seen(), len(all), "it is told once")
		net.Nodes[1:].Thaw()
		time.Sleep(2 * time.Second)
		f.sees(lease, lease.Token())
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Anybody may send messages. They cost looks, at a bounded pace, and change nothing.
func TestForgedMessagesCostLooksAndNothingElse(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		lease := hold(net, f, a)
		seen := f.seen()
		net.ClearLogs()
		forge := func(channel, text string) {
			for _, n := range net.Nodes {
				n.Redis.Publish(channel, text)
			}
		}
		began := time.Now()
		for i := range 500 {
			forge(protocol.NewsChannel("redlock:x"), fmt.Sprintf("%d %s", lease.Token()+int64(i), []string{lease.Owner(), "them", "", strings.Repeat("x", 999)}[i%4]))
			forge(protocol.NewsChannel("redlock:x"), []string{"", " ", "-1 x", "x", "0 "}[i%5])
			forge(protocol.QuestionChannel("redlock:x"), []string{"", "=redlock:x", "a*b", strings.Repeat("x", 999)}[i%4])
			time.Sleep(ms)
		}
		took := time.Since(began)
		require.Equal(t, seen, f.seen())
		for _, n := range net.Nodes {
			require.LessOrEqual(t, n.Executed("observe"), int(took/(10*ms))+2)
			require.Zero(t, n.Executed("publish"), "nobody is answered whose name is none")
		}
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(soon)
		f.sees(nil, 0)
		later := hold(net, f, a)
		require.NoError(t, later.Unlock(t.Context()))
	})
}

// A forged token of a present owner counts only if the counters allow it, and if it is no earlier term.
func TestForgedTokensDoNotHideTerms(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		first := hold(net, f, a)
		require.NoError(t, first.Unlock(t.Context()))
		silent := net.Must(a.Mutex("x").Lock(t.Context()))
		time.Sleep(2 * time.Second)
		f.sees(silent, 0)
		for _, token := range []int64{first.Token(), silent.Token() + 1, 1 << 52} {
			for _, n := range net.Nodes {
				n.Redis.Publish(protocol.NewsChannel("redlock:x"), protocol.Announcement{Owner: silent.Owner(), Token: token}.String())
			}
			time.Sleep(2 * time.Second)
			f.sees(silent, 0)
		}
		require.NoError(t, silent.Unlock(t.Context()))
	})
}

// Each node sends a message of each change. The first leads to a look, and one more follows for the rest.
func TestAChangeCostsANodeTwoLooks(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		for i, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay = []time.Duration{ms, ms, ms, 20 * ms, 40 * ms}[i] })
		}
		f := follow(t, c.Mutex("x"))
		time.Sleep(1100 * ms)
		for range 10 {
			net.ClearLogs()
			lease := net.Must(a.Mutex("x", announced).Lock(t.Context()))
			time.Sleep(100 * ms)
			f.sees(lease, lease.Token())
			require.LessOrEqual(t, net.Nodes[0].Executed("observe"), 2)
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(100 * ms)
		}
	})
}

// Keys that stand at a quorum may be those of an attempt that its client did not win: it rolls them back.
func TestAnAttemptThatFailedIsNoHolder(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		f := follow(t, c.Mutex("x"))
		time.Sleep(990 * ms) // the look in turn comes while the keys stand
		net.Nodes.Mute()
		ctx, cancel := context.WithTimeout(t.Context(), 300*ms)
		defer cancel()
		_, err := a.Mutex("x", announced).TryLock(ctx)
		require.Error(t, err)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Muting = false })
		}
		time.Sleep(3 * time.Second)
		for _, s := range f.seen() {
			require.Empty(t, s.Owner)
		}
	})
}

// One look a second, whatever the number of followers and of locks, and no message.
func TestFollowersCostANodeACommandASecondWhileNothingChanges(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		var all []*follower
		for i := range 60 {
			all = append(all, follow(t, c.Mutex(fmt.Sprint("lock ", i%20))), follow(t, c.Mutex("x")))
		}
		lease := net.Must(a.Mutex("x", announced).Lock(t.Context()))
		time.Sleep(time.Second)
		net.ClearLogs()
		time.Sleep(20 * time.Second)
		for _, n := range net.Nodes {
			require.InDelta(t, 20, n.Executed("observe"), 1)
			require.Zero(t, n.Executed("publish"))
		}
		for i, f := range all {
			if i%2 == 1 {
				f.sees(lease, lease.Token())
			} else {
				f.sees(nil, 0)
			}
			f.end()
		}
		net.ClearLogs()
		time.Sleep(10 * time.Second)
		require.Zero(t, net.Nodes[0].Executed("observe"), "nobody observes")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A lock that nobody announces sends no message, and its client does not listen.
func TestALockThatNobodyAnnouncesPaysNothing(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a := net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		synctest.Wait()
		require.Zero(t, net.Nodes[0].Executed("publish"))
		require.Len(t, net.Nodes[0].Links, 1)
	})
}

func TestASlowFollowerGetsTheNewest(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, c := net.Client(), net.Client()
		var last *redlock.Lease
		var got []redlock.Holding
		for h, err := range c.Mutex("x").Observe(t.Context()) {
			require.NoError(t, err)
			if got = append(got, h); len(got) == 2 {
				break
			}
			for range 5 {
				last = net.Must(a.Mutex("x", announced).Lock(t.Context()))
				time.Sleep(soon)
				if len(got) < 5 {
					require.NoError(t, last.Unlock(t.Context()))
				}
			}
			last = net.Must(a.Mutex("x", announced).Lock(t.Context()))
			time.Sleep(soon)
		}
		require.Equal(t, last.Owner(), got[1].Owner)
		require.NoError(t, last.Unlock(t.Context()))
	})
}

func TestObserveEnds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		observe := func(c *redlock.Client, ctx context.Context, m *redlock.Mutex) (last error) {
			for _, err := range m.Observe(ctx) {
				last = err
			}
			return last
		}
		c := net.Client()
		cause := errors.New("enough")
		ctx, cancel := context.WithCancelCause(t.Context())
		time.AfterFunc(time.Second, func() { cancel(cause) })
		err := observe(c, ctx, c.Mutex("x"))
		require.ErrorIs(t, err, cause)
		require.ErrorIs(t, err, context.Canceled)
		require.ErrorIs(t, observe(c, ctx, c.Mutex("x")), cause, "from the beginning")
		require.ErrorIs(t, observe(c, t.Context(), c.Mutex("")), redlock.ErrConfig)
		require.ErrorIs(t, observe(c, t.Context(), c.Multi([]string{"a", "b"})), redlock.ErrConfig)
		time.AfterFunc(time.Second, func() { _ = c.Close() })
		require.ErrorIs(t, observe(c, t.Context(), c.Mutex("x")), redlock.ErrClosed)
		require.ErrorIs(t, observe(c, t.Context(), c.Mutex("x")), redlock.ErrClosed)
	})
}

// Many locks share the looks; a change is seen at once, whatever their number.
func TestAClientObservesManyLocks(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		locks := testnet.Tries(1000, 10_000)
		a, c := net.Client(), net.Client()
		var all []*follower
		for i := range locks {
			all = append(all, follow(t, c.Mutex(fmt.Sprint("lock ", i))))
		}
		time.Sleep(time.Second)
		for _, f := range all {
			f.sees(nil, 0)
		}
		lease := net.Must(a.Mutex("lock 77", announced).Lock(t.Context()))
		time.Sleep(soon)
		all[77].sees(lease, lease.Token())
		silent := net.Must(a.Mutex("lock 78").Lock(t.Context()))
		time.Sleep(time.Duration(locks/100+2) * time.Second)
		all[78].sees(silent, 0)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, silent.Unlock(t.Context()))
		for _, f := range all {
			f.end()
		}
		time.Sleep(time.Second)
		for _, n := range net.Nodes {
			require.Len(t, n.Redis.PubSubChannels("*"), 2, "the wake-ups of both clients")
		}
		observed, asked := testhook.Engine(c).Board().Len()
		require.Zero(t, observed+asked)
	})
}
