package redlock_test

import (
	"context"
	"fmt"
	"log"
	"math"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestInspectShowsTheHolderTheQueueAndEachNodesView(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client(redlock.WithOwnerLabel("the patient one"))
		empty := net.Status(a.Inspect(t.Context(), "x"))
		require.Empty(t, empty.Holder)
		require.Empty(t, empty.Queue)

		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		synctest.Wait()
		asked := time.Now()
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		gaveUp := make(chan error, 1)
		go func() {
			_, err := b.Mutex("x").Lock(ctx)
			gaveUp <- err
		}()
		time.Sleep(500 * ms) // it is in the queue and does not ask again yet
		net.Nodes[3].Redis.Del("redlock:x")
		net.Nodes[4].Redis.Del("redlock:x")
		net.Nodes[0].Down()
		time.Sleep(10 * ms)
		s := net.Status(a.Inspect(t.Context(), "x"))
		require.Equal(t, "x", s.Name)
		require.Empty(t, s.Holder, "two nodes are no quorum")
		require.Empty(t, s.Label)
		require.NoError(t, lease.Extend(t.Context()))
		s = net.Status(a.Inspect(t.Context(), "x"))
		require.Equal(t, lease.Owner(), s.Holder)
		require.Equal(t, lease.Label(), s.Label)
		require.InDelta(t, 10*time.Second, s.Remaining, float64(time.Second))
		require.Equal(t, lease.Token()+1, s.Token, "the attempt that was refused is counted too")
		require.Error(t, s.Nodes[0].Err)
		require.Equal(t, lease.Owner(), s.Nodes[1].Holder)
		require.Len(t, s.Queue, 1)
		require.Equal(t, "the patient one", s.Queue[0].Label)
		require.WithinDuration(t, asked, s.Queue[0].Since, 100*ms)
		require.GreaterOrEqual(t, s.Queue[0].Nodes, 3)

		var held *redlock.HeldError
		require.ErrorAs(t, <-gaveUp, &held)
		require.Equal(t, 1, held.Position)
		require.Equal(t, lease.Owner(), held.Holder)
		require.Equal(t, lease.Label(), held.Label)
		require.ErrorContains(t, held, "position 1 in the wait queue")

		net.Nodes[1].Down()
		net.Nodes[2].Down()
		time.Sleep(10 * ms)
		s, err := a.Inspect(t.Context(), "x")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.Equal(t, lease.Owner(), s.Nodes[3].Holder, "the Status has the answers of the other nodes")
		_, err = a.Inspect(t.Context(), "")
		require.ErrorIs(t, err, redlock.ErrConfig)
	})
}

func TestInspectShowsReaders(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		long := net.Must(c.RWMutex("x", redlock.WithTTL(20*time.Second), redlock.WithOwnerLabel("reports")).RLock(t.Context()))
		short := net.Must(net.Client().RWMutex("x").RLock(t.Context()))
		net.Die(c, net.Must(c.RWMutex("x", redlock.WithTTL(time.Second)).RLock(t.Context()))) // nobody releases its share

		synctest.Wait() // until all nodes have them, and not only a quorum
		require.Len(t, net.Status(c.Inspect(t.Context(), "x")).Readers, 3)
		time.Sleep(time.Second) // one share is over
		s := net.Status(c.Inspect(t.Context(), "x"))
		require.Empty(t, s.Holder)
		require.Len(t, s.Readers, 2)
		require.Equal(t, []string{long.Owner(), short.Owner()}, []string{s.Readers[0].Owner, s.Readers[1].Owner})
		require.Equal(t, "reports", s.Readers[0].Label)
		require.Equal(t, 3, s.Readers[0].Nodes)
		require.InDelta(t, 19, s.Readers[0].Remaining.Seconds(), 0.1)
		require.Equal(t, s.Readers[0].Remaining, s.Remaining)
		require.Equal(t, long.Token(), s.Token)
		require.Len(t, s.Nodes[0].Readers, 2)
		require.Empty(t, s.Nodes[0].Holder)
	})
}

func TestForceUnlockTakesTheLockFromAllReaders(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		var readers []*redlock.Lease
		for range 3 {
			lease := net.Must(net.Client().RWMutex("x").RLock(t.Context()))
			readers = append(readers, lease)
		}
		s := net.Status(c.ForceUnlock(t.Context(), "x"))
		require.Len(t, s.Readers, 3)
		require.Greater(t, s.Token, readers[0].Token())

		writer := net.Must(c.Mutex("x").TryLock(t.Context()))
		require.Greater(t, writer.Token(), s.Token)
		time.Sleep(10 * time.Second)
		for _, lease := range readers {
			require.ErrorIs(t, lease.Err(), redlock.ErrLost)
			require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
		}
		require.True(t, writer.Valid())
		require.NoError(t, writer.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// While Inspect waits for a silent node, the other nodes answer in time.
func TestInspectCountsAnswersThatCameWhileItWaitedForAnotherNode(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes[0].Freeze()
		for range 10 { // the answers and the timeout are both there: a select would choose at random
			s := net.Status(c.Inspect(t.Context(), "x"))
			require.Error(t, s.Nodes[0].Err)
			require.NoError(t, s.Nodes[1].Err)
			require.NoError(t, s.Nodes[2].Err)
		}
	})
}

func TestInspectAndForceUnlockNameTheHolderOfAnEmptyValue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:x", ""))
			n.Redis.SetTTL("redlock:x", time.Minute)
		}
		for _, look := range []func(context.Context, string) (redlock.Status, error){c.Inspect, c.ForceUnlock} {
			s, err := look(t.Context(), "x")
			require.NoError(t, err)
			require.Equal(t, "(an empty value)", s.Holder)
			require.Equal(t, time.Minute, s.Remaining)
			for _, n := range s.Nodes {
				require.Equal(t, "(an empty value)", n.Holder)
				require.Equal(t, time.Minute, n.Remaining)
			}
		}
		s := net.Status(c.Inspect(t.Context(), "x"))
		require.Empty(t, s.Holder, "the lock was freed")
		require.Empty(t, s.Nodes[0].Holder)
		require.Zero(t, s.Nodes[0].Remaining)
	})
}

func TestInspectAndForceUnlockClampLongTTLs(t *testing.T) {
	const longest = system.Forever / ms * ms
	for pttl, want := range map[int64]time.Duration{
		-1: protocol.Endless, 0: 0, 1: ms,
		int64(longest/ms) - 1: longest - ms, int64(longest / ms): longest, int64(longest/ms) + 1: longest,
		1 << 62: longest, math.MaxInt64: longest,
	} {
		testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
			replies := map[any]any{protocol.Inspect.Text(): []any{[]byte("them"), pttl, []byte("7"), []any{}, []any{}, []byte("0")}}
			c, err := redlock.New([]redlock.Pool{replacingPool{net.Nodes[0], replies}}, redlock.WithLogger(nil), redlock.WithRestartGuard(0))
			require.NoError(t, err)
			net.Add(c)
			s := net.Status(c.Inspect(t.Context(), "x"))
			require.Equal(t, want, s.Nodes[0].Remaining, "inspect, %d", pttl)
			require.Equal(t, want, s.Remaining)

			replies[protocol.Inspect.Text()] = []any{[]byte("them"), int64(1), []byte("7"), []any{}, []any{}, []byte("0")}
			replies[protocol.Seize.Text()] = []any{int64(7), []byte("them"), pttl}
			s = net.Status(c.ForceUnlock(t.Context(), "x"))
			require.Equal(t, want, s.Nodes[0].Remaining, "force unlock, %d", pttl)
			require.Equal(t, want, s.Remaining)
		})
	}
}

func ExampleClient_Locks() {
	client, closeAll := openExample()
	defer closeAll()
	ctx := context.Background()
	for _, name := range []string{"invoice-41", "invoice-42", "report"} {
		lease, err := client.Mutex(name, redlock.WithOwnerLabel("billing")).Lock(ctx)
		if err != nil {
			log.Fatal(err)
		}
		defer lease.Unlock(ctx)
	}

	for status, err := range client.Locks(ctx, "invoice-*") {
		switch {
		case err != nil:
			log.Fatal(err) // what was shown before is right
		case status.Incomplete:
			fmt.Println(status.Name, "is at some nodes, and too few answer") // and the error follows
		case status.Holder != "":
			fmt.Println(status.Name, "is held by", status.Label, "and", len(status.Queue), "wait")
		case status.Reserved != "" || len(status.Queue) > 0:
			fmt.Println(status.Name, "is free, and", len(status.Queue), "wait")
		}
	}
	// Unordered output:
	// invoice-41 is held by billing and 0 wait
	// invoice-42 is held by billing and 0 wait
}

// replacingPool leads to a node, and replaces the replies to some scripts.
type replacingPool struct {
	*testnet.Node
	replies map[any]any // by the script's text
}

func (p replacingPool) GetContext(ctx context.Context) (redis.Conn, error) {
	conn, err := p.Node.GetContext(ctx)
	if err != nil {
		return nil, err
	}
	return &replacingConn{Conn: conn.(testnet.Conn), replies: p.replies, sent: make(chan any, 100)}, nil
}

// replacingConn is a connection of a replacingPool. Commands that were sent are answered in
// their order.
type replacingConn struct {
	testnet.Conn
	replies map[any]any
	sent    chan any // the reply to put in the place of the command's; nil: none
}

func (c *replacingConn) Send(command string, args ...any) error {
	var reply any
	if command == "EVAL" {
		reply = c.replies[args[0]]
	}
	c.sent <- reply
	return c.Conn.Send(command, args...)
}

func (c *replacingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	reply, err := c.Conn.ReceiveWithTimeout(timeout)
	if c.Conn.Err() != nil {
		return reply, err
	}
	if other := <-c.sent; other != nil {
		return other, nil
	}
	return reply, err
}

func ExampleMutex_Lead() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background() // Lead ends with it

	office := client.Mutex("scheduler", redlock.WithOwnerLabel("web-1"))
	err := office.Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		status, err := client.Inspect(ctx, "scheduler")
		if err != nil {
			return err // Lead pauses, and stands for election again
		}
		fmt.Println("leader:", status.Label)
		for jobs := 1; ctx.Err() == nil; jobs++ { // this caller leads until ctx ends
			fmt.Println("job", jobs)
			if jobs == 2 {
				return nil // all is done: Lead ends
			}
		}
		return context.Cause(ctx)
	})
	fmt.Println(err)
	// Output:
	// leader: web-1
	// job 1
	// job 2
	// <nil>
}

func ExampleErrResign() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx, term := context.Background(), 0 // Lead ends with ctx

	office := client.Mutex("scheduler", redlock.WithWanted())
	err := office.Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		term++
		fmt.Println("term", term)
		if term == 2 {
			return nil // all is done: Lead ends
		}
		if err := client.Ask(ctx, "scheduler"); err != nil { // as a candidate in another process does that waits
			return err
		}
		select {
		case <-lease.Wanted():
			return redlock.ErrResign // a waiter leads, and then this caller again
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	})
	fmt.Println(err)
	// Output:
	// term 1
	// term 2
	// <nil>
}

func ExampleClient_Ask() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	fmt.Println("free:", client.Ask(ctx, "reports"))
	lease, err := client.Mutex("reports", redlock.WithWanted()).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println("held:", client.Ask(ctx, "reports")) // in another process
	<-lease.Wanted()
	fmt.Println("the holder lets go:", lease.Unlock(ctx))
	// Output:
	// free: <nil>
	// held: <nil>
	// the holder lets go: <nil>
}
