package operate_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/operate"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestLocksListsLeasesOfAllKindsAsInspectShowsThem(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client(redlock.WithOwnerLabel("reports"))
		alone := net.Must(c.Mutex("alone").Lock(t.Context()))
		share := net.Must(other.RWMutex("read").RLock(t.Context()))
		second := net.Must(c.RWMutex("read").RLock(t.Context()))
		set := net.Must(c.Multi([]string{"set one", "set two"}).Lock(t.Context()))
		go func() { _, _ = other.Mutex("alone").Lock(t.Context()) }()
		time.Sleep(100 * ms)
		synctest.Wait()

		listed := make(map[string]redlock.Status)
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			require.NotContains(t, listed, s.Name)
			listed[s.Name] = s
			inspected := net.Status(c.Inspect(t.Context(), s.Name))
			require.Equal(t, inspected.Holder, s.Holder)
			require.Equal(t, inspected.Token, s.Token)
			require.Equal(t, inspected.Queue, s.Queue)
			require.Len(t, s.Nodes, 5)
		}
		require.Len(t, listed, 4)
		require.Equal(t, alone.Owner(), listed["alone"].Holder)
		require.InDelta(t, 10, listed["alone"].Remaining.Seconds(), 1)
		require.Len(t, listed["alone"].Queue, 1)
		require.Equal(t, "reports", listed["alone"].Queue[0].Label)
		require.Empty(t, listed["read"].Holder)
		require.Len(t, listed["read"].Readers, 2)
		require.Equal(t, set.Owner(), listed["set one"].Holder)
		require.Equal(t, set.Owner(), listed["set two"].Holder)
		for _, lease := range []*redlock.Lease{share, second, set} {
			require.NoError(t, lease.Unlock(t.Context()))
		}
		synctest.Wait()
		requireListed(t, c, "*", "alone")
	})
}

func TestLocksShowsLocksThatRestAndSlotsOfASemaphore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(c.Mutex("cron", redlock.WithMinHold(5*time.Second)).Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		permits := net.Must(c.Semaphore("jobs", 3).Acquire(t.Context(), 2))
		synctest.Wait()
		listed := make(map[string]redlock.Status)
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			listed[s.Name] = s
		}
		require.Len(t, listed, 3)
		require.True(t, listed["cron"].Resting)
		require.Equal(t, lease.Owner(), listed["cron"].Holder)
		for _, slot := range permits.Slots() {
			require.Equal(t, permits.Owner(), listed[fmt.Sprintf("jobs#%d", slot)].Holder)
		}
		require.NoError(t, permits.Unlock(t.Context()))
		time.Sleep(5 * time.Second)
		requireListed(t, c, "*")
	})
}

// A prefix with the characters of patterns stands for itself.
func TestLocksMatchesTheNameAndEscapesThePrefix(t *testing.T) {
	for _, prefix := range []string{"redlock:", "", `a*b:`, `a?:`, `[ab]:`, `a\`, `a\*[?]\\`, `a^-]:`} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client(redlock.WithPrefix(prefix))
			for _, key := range []string{prefix + "job-1", prefix + "job-2", prefix + "task"} {
				put(t, net, key, "owner", 0, 1, 2)
			}
			if prefix != "" {
				for _, key := range []string{"aXb:job-3", "ax:job-3", "a:job-3", "ajob-3", "b:job-3", "job-3", `a*job-3`} {
					put(t, net, key, "owner", 0, 1, 2)
				}
			}
			requireListed(t, c, "*", "job-1", "job-2", "task")
			requireListed(t, c, "job-*", "job-1", "job-2")
			requireListed(t, c, "job-?", "job-1", "job-2")
			requireListed(t, c, "job-[2-9]", "job-2")
			requireListed(t, c, `ta\sk`, "task")
			requireListed(t, c, "ob-1")
			_, err := list(t.Context(), c, "")
			require.ErrorIs(t, err, redlock.ErrConfig)
		})
	}
}

func TestLocksShowsNeitherKeysOfTheLibraryNorOfOtherTypes(t *testing.T) {
	for _, prefix := range []string{"redlock:", "", "redlock"} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client(redlock.WithPrefix(prefix))
			for _, key := range []string{protocol.Key("quarantine", "x"), protocol.FormatKey, protocol.Reserved, prefix, protocol.Key("queue", prefix+"text")} {
				if key != "" {
					put(t, net, key, "text", 0, 1, 2)
				}
			}
			put(t, net, prefix+"reserved", protocol.Reservation+"0123456789012345-A-1", 0, 1, 2)
			put(t, net, prefix+"shared by nobody", protocol.Shared, 0, 1, 2)
			put(t, net, prefix+"held", "owner", 0, 1, 2)
			for _, n := range net.Nodes {
				n.Redis.HSet(prefix+"hash", "field", "value")
				_, err := n.Redis.ZAdd(protocol.Key("readers", prefix+"of nobody"), 1, "owner")
				require.NoError(t, err)
			}
			requireListed(t, c, "*", "held", "reserved")
		})
	}
}

// The holder of one name has two nodes only, and those of another name are different.
func TestLocksShowsWhatAQuorumNames(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		put(t, net, "redlock:minority", "owner", 0, 1)
		put(t, net, "redlock:split", "one", 0, 1)
		put(t, net, "redlock:split", "two", 2, 3, 4)
		put(t, net, "redlock:none", "one", 0, 1)
		put(t, net, "redlock:none", "two", 2, 3) // nobody holds it, and nobody can get it
		put(t, net, "redlock:last nodes", "owner", 2, 3, 4)
		put(t, net, "redlock:first nodes", "owner", 0, 1, 2)
		put(t, net, "redlock:text elsewhere", "owner", 0, 2, 4)
		net.Nodes[1].Redis.HSet("redlock:text elsewhere", "field", "value")
		put(t, net, "redlock:no lock", "owner", 1)
		for _, i := range []int{0, 2, 4} {
			net.Nodes[i].Redis.HSet("redlock:no lock", "field", "value")
		}
		requireListed(t, c, "*", "first nodes", "last nodes", "none", "split", "text elsewhere")
		require.Zero(t, net.Nodes[3].Executed("scan"), "three of five nodes meet every quorum")

		net.Nodes[1].Down()
		time.Sleep(10 * ms)
		requireListed(t, c, "*", "last nodes", "none", "split", "text elsewhere")
		require.NotZero(t, net.Nodes[3].Executed("scan"), "another node takes the place of the one that is down")
	})
}

// Any node may be one of those that have the lock.
func TestLocksFindsALockAtAnyQuorum(t *testing.T) {
	for n := 1; n <= 6; n++ {
		testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			quorum := n/2 + 1
			for first := range n {
				for k := range quorum {
					put(t, net, "redlock:from "+string(rune('0'+first)), "owner", (first+k)%n)
				}
			}
			names, err := list(t.Context(), c, "*")
			require.NoError(t, err)
			require.Len(t, names, n)
			scanned := len(slices.DeleteFunc(slices.Clone(net.Nodes), func(n *testnet.Node) bool { return n.Executed("scan") == 0 }))
			require.Equal(t, n-quorum+1, scanned)
		})
	}
}

// A renewal restores the key at a node of which the listing has gone through the keys.
func TestLocksShowsALockWhoseKeyIsRestoredMeanwhile(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		put(t, net, "redlock:at all", "owner", 0, 1, 2)
		put(t, net, "redlock:restored", "owner", 1, 2)
		var names []string
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			names = append(names, s.Name)
			put(t, net, "redlock:restored", "owner", 0)
		}
		require.Equal(t, []string{"at all", "restored"}, names)
	})
}

func TestLocksShowsANameOnceThoughNodesReturnItTwice(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Twice = true
		}
		c := net.Client()
		want := putMany(t, net, operate.PageSize)
		requireListed(t, c, "*", want...)
		require.Equal(t, 3*len(want), executed(net, "inspect"), "each node is asked once for a name")
	})
}

// A listing remembers fewer names than there are: each still shows, once.
func TestListingWithAFullMemorySkipsWhatNodesBeforeHave(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		want := putMany(t, net, 30)
		put(t, net, "redlock:last", "owner", 2, 3, 4)
		e := testhook.Engine(c)
		l := operate.Listing{Clock: e.Clock, Life: e.Life, Nodes: e.Cluster.Nodes(), Need: e.Cluster.Need(),
			Timeout: e.NodeTimeout, PageTimeout: e.NodeTimeout, Prefix: "redlock:", Memory: 10}
		var names []string
		require.Nil(t, l.Run(t.Context(), "*", func(f *operate.Found) (locked, more bool) {
			names = append(names, f.Name)
			return true, true
		}))
		slices.Sort(names)
		require.Equal(t, append([]string{"last"}, want...), names)
	})
}

func TestLocksEndsWithItsContext(t *testing.T) {
	cause := errors.New("enough")
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		putMany(t, net, 200)
		ctx, cancel := context.WithCancelCause(t.Context())
		shown, failed := 0, 0
		for s, err := range c.Locks(ctx, "*") {
			if err != nil {
				require.ErrorIs(t, err, cause)
				require.Empty(t, s)
				failed++
				continue
			}
			if shown++; shown == 10 {
				cancel(cause)
			}
		}
		require.Equal(t, 1, failed)
		require.Equal(t, operate.BatchNames, shown, "what was asked for is shown")
		_, err := list(ctx, c, "*")
		require.ErrorIs(t, err, cause)

		net.Nodes[0].Freeze()
		ctx, cancel = context.WithCancelCause(t.Context())
		time.AfterFunc(100*ms, func() { cancel(cause) })
		require.Equal(t, 100*ms, testnet.Elapsed(func() {
			_, err = list(ctx, c, "*")
			require.ErrorIs(t, err, cause)
		}))
	})
}

func TestLocksEndsWithTheLoopAndTheClient(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		putMany(t, net, 200)
		for _, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			break
		}
		synctest.Wait()
		require.Equal(t, 3*operate.BatchNames, executed(net, "inspect"))
		require.Equal(t, operate.Places, executed(net, "scan"))

		var last error
		for _, err := range c.Locks(t.Context(), "*") {
			last = err
			require.NoError(t, c.Close(), "the loop's body may close the client")
		}
		require.ErrorIs(t, last, redlock.ErrClosed)
	})
}

// Long names make smaller batches: votes wait behind them. Each batch has one name at least.
func TestBatchesAreBoundedByNamesAndBytes(t *testing.T) {
	for length, want := range map[int]int{1: 50, 50: 41, 1000: 6, 10_000: 1, 100_000: 1} {
		names := slices.Repeat([]string{strings.Repeat("x", length)}, 200)
		all := operate.Batches(names)
		require.Len(t, all[0], want, "names of %d bytes", length)
		require.Equal(t, names, slices.Concat(all...))
	}
	require.Empty(t, operate.Batches(nil))
}

// A server looks at 256 keys for each semaphore: few are asked for at a time, and each once.
func TestLocksAsksForFewSemaphoresAtATime(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		const semaphores = 2*operate.BatchSemaphores + 1
		for _, n := range net.Nodes {
			for k := range semaphores {
				_, err := n.Redis.ZAdd(protocol.Key("slots", fmt.Sprintf("redlock:%d", k)), 0, "0123456789012345-AAAAAAAAAAAAAAAA-0000000001/3*1")
				require.NoError(t, err)
			}
		}
		shown := 0
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			require.Equal(t, 3, s.Queue[0].Limit)
			if shown++; shown == 1 {
				require.Equal(t, 3*operate.BatchSemaphores, executed(net, "inspectslots"))
			}
		}
		require.Equal(t, semaphores, shown)
		require.Equal(t, 3*semaphores, executed(net, "inspectslots"))
		require.Zero(t, executed(net, "inspect"), "nothing stands for locks of these names")
	})
}
