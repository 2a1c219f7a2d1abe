package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestErrorsAsFindsRichErrors(t *testing.T) {
	notConnected := errors.New("not connected yet")
	held := &redlock.HeldError{Name: "x", Holder: "them", Remaining: time.Second}
	quorum := &redlock.QuorumError{Op: "lock", Name: "x", Need: 2, Votes: []redlock.Vote{
		{Index: 0, Node: "node 0", Outcome: "granted"},
		{Index: 1, Node: "node 1", Outcome: "unknown", Cause: io.ErrUnexpectedEOF},
		{Index: 2, Node: "node 2", Outcome: "not sent", Cause: notConnected},
	}}

	var h *redlock.HeldError
	require.ErrorAs(t, fmt.Errorf("job: %w", held), &h)
	require.Same(t, held, h)
	var q *redlock.QuorumError
	require.ErrorAs(t, fmt.Errorf("job: %w", quorum), &q)
	require.Same(t, quorum, q)
	require.ErrorIs(t, quorum, redlock.ErrNoQuorum)
	require.ErrorIs(t, quorum, io.ErrUnexpectedEOF, "every node's cause is found")
	require.ErrorIs(t, quorum, notConnected)
	var all *multierror.Error
	require.ErrorAs(t, error(quorum), &all)
	require.Len(t, all.Errors, 2)
	require.EqualError(t, quorum, `redlock: lock "x": no quorum: 1 of 3 nodes granted, 2 needed; `+
		`node 1: unknown: unexpected EOF; node 2: not sent: not connected yet`)
	require.EqualError(t, held, `redlock: lock "x": held by "them" (expires in 1s unless renewed)`)
	require.ErrorContains(t, &redlock.HeldError{Remaining: -1}, "without an end")
}

func TestErrorOfAnEndedWaitIsItsCauseAndTheLastRefusal(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err := net.Client().Mutex("x").Lock(ctx)

		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, lease.Owner(), held.Holder)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum)
		require.EqualError(t, err, `redlock: lock "x": context canceled while waiting; last attempt: `+strings.TrimPrefix(held.Error(), "redlock: "))
	})
}

func TestOnlyAMajorityOfPermanentErrorsEndsLockAtOnce(t *testing.T) {
	for cause, want := range map[error]bool{
		redis.Error("WRONGPASS no"):                      true,
		redis.Error("NOAUTH Authentication required."):   true,
		redis.Error("NOPERM no"):                         true,
		redis.Error("ERR invalid password"):              true,
		redis.Error("ERR Client sent AUTH, but no"):      true,
		redis.Error("ERR AUTH <password> called withou"): true,
		redis.Error("DENIED Redis is running in protec"): true,
		&node.UnfitError{Reason: "a replica"}:            true,
		redis.Error("LOADING"):                           false,
		redis.Error("ERR unknown"):                       false,
		io.EOF:                                           false,
		errors.New("WRONGPASS, says somebody else"):      false,
	} {
		require.Equal(t, want, node.IsPermanent(cause), "%v", cause)
		for failing := range 6 {
			testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
				for i, n := range net.Nodes {
					n.Refusing = testnet.ErrRefused
					if i < failing {
						n.Refusing = cause
					}
				}
				c := net.NewClient()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				var err error
				took := testnet.Elapsed(func() { _, err = c.Mutex("x").Lock(ctx) })
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				if want && failing >= 3 {
					require.Less(t, took, time.Second, "%d of 5: %v", failing, cause)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				} else {
					require.Equal(t, 3*time.Second, took, "%d of 5: %v", failing, cause)
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
		}
	}
}

func TestErrorsShowForeignTextWithoutEscapeSequences(t *testing.T) {
	const attack = "ERR \x1b[2J\aforged \u202e"
	requireHarmless := func(t *testing.T, err error, shown string) {
		t.Helper()
		require.ErrorContains(t, err, shown)
		require.NotRegexp(t, `\x1b|\x07|\x{202e}`, err.Error())
	}
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:held", attack))
		}
		_, err := c.Mutex("held").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		requireHarmless(t, err, `held by "ERR \x1b[2J\aforged \u202e"`)
		net.Nodes.Refuse(attack, "EVAL", "SET")
		_, err = c.Mutex("free").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		requireHarmless(t, err, `refused: ERR \x1b[2J\aforged \u202e`)
		var said redis.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, redis.Error(attack), said, "a program gets the server's text unchanged")
		requireHarmless(t, errors.Unwrap(err), `refused: ERR \x1b[2J\aforged \u202e`)

		s, err := c.Inspect(t.Context(), "free")
		requireHarmless(t, err, `ERR \x1b[2J\aforged \u202e`)
		requireHarmless(t, s.Nodes[0].Err, `ERR \x1b[2J\aforged \u202e`)
	})
}

func ExampleLease_Label() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()

	lease, err := client.Mutex("report", redlock.WithOwnerLabel("web-1")).Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)
	fmt.Println("held by", lease.Label())

	// A refused caller, and everybody who looks, see the same label.
	_, err = client.Mutex("report").TryLock(ctx)
	var held *redlock.HeldError
	if errors.As(err, &held) {
		fmt.Println("refused, since it is held by", held.Label)
	}
	status, err := client.Inspect(ctx, "report")
	fmt.Println("Inspect:", status.Label, err)
	// Output:
	// held by web-1
	// refused, since it is held by web-1
	// Inspect: web-1 <nil>
}

func ExampleLease_Wanted() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	err := client.Mutex("export", redlock.WithWanted()).Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		time.AfterFunc(20*time.Millisecond, func() { _ = client.Ask(ctx, "export") }) // in another process
		for {
			select {
			case <-lease.Wanted():
				fmt.Println("between two chunks: the lock is wanted")
				return nil
			case <-ctx.Done():
				return context.Cause(ctx)
			case <-time.After(time.Millisecond): // export a chunk
			}
		}
	})
	fmt.Println(err)
	// Output:
	// between two chunks: the lock is wanted
	// <nil>
}

func ExampleLostError() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(nil))
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()
	ctx := context.Background()

	err = client.Mutex("invoice-42").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		// An operator takes the lock away from its holder.
		if _, err := client.ForceUnlock(context.Background(), "invoice-42"); err != nil {
			return err
		}
		return lease.Extend(ctx)
	})
	var lost *redlock.LostError
	if errors.As(err, &lost) {
		fmt.Println("lost:", lost.Name, "reason:", lost.Reason)
	}
	switch {
	case lost == nil:
		fmt.Println("done")
	case lost.Reason == redlock.LostRevoked:
		fmt.Println("somebody took the lock away, or the servers lost their memory: stop")
	case lost.Reason == redlock.LostNoQuorum:
		fmt.Println("too few servers answered for too long:", lost.Cause)
	default:
		fmt.Println("the work took too long, or the process was suspended")
	}
	// Output:
	// lost: invoice-42 reason: revoked
	// somebody took the lock away, or the servers lost their memory: stop
}

func ExampleLostReason_String() {
	for _, reason := range []redlock.LostReason{
		redlock.LostExpired, redlock.LostMaxHold, redlock.LostRevoked, redlock.LostNoQuorum, redlock.LostTransferred,
	} {
		fmt.Println(reason)
	}
	// Output:
	// expired
	// max hold
	// revoked
	// no quorum
	// transfer
}

func ExampleHeldError() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lock := client.RWMutex("report", redlock.WithOwnerLabel("web-1"))

	refusal := func(err error) string {
		var held *redlock.HeldError
		switch {
		case !errors.As(err, &held):
			return fmt.Sprint(err)
		case held.Shared:
			return fmt.Sprint("readers hold it, for less than ten seconds more: ", held.Remaining <= 10*time.Second)
		default:
			return "held by " + held.Label
		}
	}
	reader, err := lock.RLock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = lock.TryLock(ctx)
	fmt.Println(refusal(err))
	if err := reader.Unlock(ctx); err != nil {
		log.Fatal(err)
	}

	writer, err := lock.Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer writer.Unlock(ctx)
	_, err = lock.TryLock(ctx)
	fmt.Println(refusal(err))
	// Output:
	// readers hold it, for less than ten seconds more: true
	// held by web-1
}

func ExampleClient_Resume() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("upload-7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	text, err := lease.Transfer(ctx)
	if err != nil {
		log.Fatal(err)
	}

	for range 2 { // in two other processes: one text is one lease
		var lost *redlock.LostError
		switch next, err := client.Resume(ctx, text); {
		case errors.As(err, &lost) && lost.Reason == redlock.LostTransferred:
			fmt.Println("too late, or another process was faster: begin anew, with Lock")
		case err != nil:
			log.Fatal(err)
		default:
			defer next.Unlock(ctx)
			fmt.Println("resumed:", next.Name())
		}
	}
	_, err = client.Resume(ctx, text[:20])
	fmt.Println("cut off:", errors.Is(err, redlock.ErrConfig))
	// Output:
	// resumed: upload-7
	// too late, or another process was faster: begin anew, with Lock
	// cut off: true
}

func TestRevokedLeaseNamesClocksAmongItsCauses(t *testing.T) {
	err := &redlock.LostError{Name: "x", Reason: redlock.LostRevoked}
	require.ErrorContains(t, err, "by servers that lost memory, or by server clocks set forward")
}
