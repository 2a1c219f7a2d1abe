package fence_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

func TestGuardRefusesATokenSmallerThanTheHighestSeen(t *testing.T) {
	var g fence.Guard
	writes := 0
	write := func() error { writes++; return nil }

	require.NoError(t, g.Do("orders", 33, write))
	require.NoError(t, g.Do("orders", 33, write), "one holder may write often")
	require.NoError(t, g.Do("orders", 40, write))
	err := g.Do("orders", 39, write)
	require.Equal(t, 3, writes)

	require.ErrorIs(t, err, fence.ErrStale)
	require.EqualError(t, err, `fence: "orders": token 39 is stale: 40 was seen before`)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, &fence.StaleError{Resource: "orders", Token: 39, Highest: 40}, stale)
}

func TestGuardKeepsResourcesApart(t *testing.T) {
	var g fence.Guard
	require.NoError(t, g.Do("orders", 40, nothing))
	require.NoError(t, g.Do("invoices", 1, nothing))
}

func TestGuardRefusesAWriteWithoutAToken(t *testing.T) {
	var g fence.Guard
	for _, token := range []int64{0, -1} {
		err := g.Do("orders", token, func() error { t.Error("written"); return nil })
		require.ErrorIs(t, err, fence.ErrUnfenced)
		require.NotErrorIs(t, err, fence.ErrStale)
		require.ErrorContains(t, err, fmt.Sprintf(`"orders": the write is not fenced: its token is %d`, token))
	}
}

func TestTokenCountsAsSeenEvenIfTheWriteFails(t *testing.T) {
	var g fence.Guard
	broken := errors.New("the disk is broken")
	require.Equal(t, broken, g.Do("orders", 40, func() error { return broken }))
	require.ErrorIs(t, g.Do("orders", 39, nothing), fence.ErrStale)

	require.Panics(t, func() { _ = g.Do("orders", 41, func() error { panic("bug") }) })
	require.ErrorIs(t, g.Do("orders", 40, nothing), fence.ErrStale)
	require.NoError(t, g.Do("orders", 41, nothing), "a panic leaves nothing locked")
}

func TestFullGuardServesKnownResourcesAndRefusesOthers(t *testing.T) {
	g := fence.Guard{Limit: 2}
	require.NoError(t, g.Do("a", 5, nothing))
	require.NoError(t, g.Do("b", 5, nothing))

	err := g.Do("c", 5, func() error { t.Error("written"); return nil })
	require.ErrorIs(t, err, fence.ErrFull)
	require.ErrorContains(t, err, "it has 2 resources")
	require.NoError(t, g.Do("a", 6, nothing))
	require.ErrorIs(t, g.Do("a", 5, nothing), fence.ErrStale)

	g.Forget("b")
	g.Forget("b")
	g.Forget("never seen")
	require.NoError(t, g.Do("c", 5, nothing))
	require.ErrorIs(t, g.Do("b", 6, nothing), fence.ErrFull)
}

func TestTheZeroGuardHasALimitToo(t *testing.T) {
	var g fence.Guard
	for i := range 65536 {
		require.NoError(t, g.Do(fmt.Sprint(i), 1, nothing))
	}
	require.ErrorIs(t, g.Do("one more", 1, nothing), fence.ErrFull)
}

// Many holders write at once, and in one case forget the resource: two writes of a resource
// never run together, and without Forget the last write has the highest token.
func TestGuardUnderConcurrentUse(t *testing.T) {
	for _, forgetful := range []bool{false, true} {
		t.Run(fmt.Sprintf("forgetful=%v", forgetful), func(t *testing.T) {
			var g fence.Guard
			var last int64 // protected by the guard alone; the race detector watches
			var refused atomic.Int64
			var all sync.WaitGroup
			for worker := range 8 {
				all.Go(func() {
					for i := range 500 {
						token := int64(1 + i*8 + (worker+i)%8)
						err := g.Do("orders", token, func() error {
							if !forgetful {
								assert.LessOrEqual(t, last, token)
							}
							last = token
							return nil
						})
						if err != nil {
							assert.ErrorIs(t, err, fence.ErrStale)
							refused.Add(1)
						}
						if forgetful {
							g.Forget("orders")
						}
					}
				})
			}
			all.Wait()
			if !forgetful {
				require.EqualValues(t, 500*8, last)
			}
			t.Logf("%d of %d writes came too late", refused.Load(), 8*500)
		})
	}
}

func nothing() error { return nil }

func TestGuardComparesBothTokens(t *testing.T) {
	const (
		byWriter = "was seen before"
		byReader = "a writer's token must be greater"
	)
	type step struct {
		access  string
		token   int64
		highest int64 // 0: the access is accepted
		cause   string
	}
	for name, steps := range map[string][]step{
		"a reader has the token of the writer before it": {{"write", 33, 0, ""}, {"read", 33, 0, ""}, {"read", 33, 0, ""}},
		"a reader after a later writer":                  {{"write", 34, 0, ""}, {"read", 33, 34, byWriter}},
		"a writer after a reader with its token":         {{"write", 33, 0, ""}, {"read", 33, 0, ""}, {"write", 33, 33, byReader}},
		"a writer after a later reader":                  {{"write", 33, 0, ""}, {"read", 35, 0, ""}, {"write", 34, 35, byReader}},
		"Do after a later reader":                        {{"do", 33, 0, ""}, {"read", 35, 0, ""}, {"do", 34, 35, byReader}},
		"a writer after a later reader and writer":       {{"read", 33, 0, ""}, {"write", 35, 0, ""}, {"write", 32, 35, byWriter}},
		"a writer after a later writer and its reader":   {{"write", 35, 0, ""}, {"read", 35, 0, ""}, {"write", 34, 35, byReader}},
		"a late reader behind a later reader and writer": {{"write", 34, 0, ""}, {"read", 40, 0, ""}, {"read", 33, 34, byWriter}},
		"the next writer":                                {{"read", 33, 0, ""}, {"write", 34, 0, ""}, {"read", 34, 0, ""}, {"write", 35, 0, ""}},
		"an earlier reader hides no later one":           {{"read", 35, 0, ""}, {"read", 33, 0, ""}, {"write", 34, 35, byReader}},
		"a refused reader counts for nothing":            {{"write", 34, 0, ""}, {"read", 33, 34, byWriter}, {"write", 34, 0, ""}},
		"a refused writer counts for nothing":            {{"read", 35, 0, ""}, {"write", 34, 35, byReader}, {"read", 33, 0, ""}},
		"a holder writes often":                          {{"write", 33, 0, ""}, {"do", 33, 0, ""}, {"write", 33, 0, ""}},
	} {
		t.Run(name, func(t *testing.T) {
			var g fence.Guard
			access := map[string]func(string, int64, func() error) error{"read": g.Read, "write": g.Write, "do": g.Do}
			for i, s := range steps {
				ran := false
				err := access[s.access]("orders", s.token, func() error { ran = true; return nil })
				require.Equal(t, s.highest == 0, ran, "step %d", i)
				if s.highest == 0 {
					require.NoError(t, err, "step %d", i)
					continue
				}
				require.ErrorIs(t, err, fence.ErrStale, "step %d", i)
				require.ErrorContains(t, err, s.cause, "step %d", i)
				var stale *fence.StaleError
				require.ErrorAs(t, err, &stale)
				require.Equal(t, &fence.StaleError{Resource: "orders", Token: s.token, Highest: s.highest, Read: s.cause == byReader}, stale)
			}
		})
	}
}

func TestRefusedWriteSaysThatAReaderIsTheCause(t *testing.T) {
	var g fence.Guard
	require.NoError(t, g.Read("orders", 40, nothing))
	require.EqualError(t, g.Write("orders", 39, nothing),
		`fence: "orders": token 39 is stale for a write: a reader came with 40, and a writer's token must be greater`)
}

func TestReadReturnsTheErrorAndItsTokenCountsAllTheSame(t *testing.T) {
	var g fence.Guard
	broken := errors.New("the disk is broken")
	require.Equal(t, broken, g.Read("orders", 40, func() error { return broken }))
	require.ErrorIs(t, g.Write("orders", 40, nothing), fence.ErrStale)

	// What a read has done before it panics may be in use.
	require.Panics(t, func() { _ = g.Read("orders", 41, func() error { panic("bug") }) })
	require.ErrorIs(t, g.Write("orders", 41, nothing), fence.ErrStale)
	require.NoError(t, g.Write("orders", 42, nothing), "a panic leaves nothing locked")
}

func TestGuardRefusesAReadWithoutATokenAndWithoutRoom(t *testing.T) {
	g := fence.Guard{Limit: 1}
	read := func() error { t.Error("read"); return nil }
	for _, token := range []int64{0, -1} {
		err := g.Read("orders", token, read)
		require.ErrorIs(t, err, fence.ErrUnfenced)
		require.ErrorContains(t, err, fmt.Sprintf(`"orders": the read is not fenced: its token is %d`, token))
	}
	require.NoError(t, g.Read("orders", 33, nothing))
	require.ErrorIs(t, g.Read("invoices", 33, read), fence.ErrFull, "a read takes room too")
	require.ErrorIs(t, g.Write("orders", 33, nothing), fence.ErrStale)

	g.Forget("orders")
	require.NoError(t, g.Write("orders", 1, nothing), "a forgotten resource accepts any token")
}

// Each of the reads ends only when the others have begun.
func TestReadsOfOneResourceRunAtTheSameTime(t *testing.T) {
	var g fence.Guard
	var begun, all sync.WaitGroup
	begun.Add(3)
	for token := int64(1); token <= 3; token++ {
		all.Go(func() {
			assert.NoError(t, g.Read("orders", token, func() error {
				begun.Done()
				begun.Wait()
				return nil
			}))
		})
	}
	all.Wait()
	require.ErrorIs(t, g.Write("orders", 3, nothing), fence.ErrStale, "the greatest token of the three counts")
	require.NoError(t, g.Write("orders", 4, nothing))
}

// Also an access with a greater token waits: the one that is under way was accepted before.
func TestReadsAndWritesWaitForEachOther(t *testing.T) {
	var g fence.Guard
	forget := func(name string, _ int64, then func() error) error { g.Forget(name); return then() }
	for i, test := range []struct {
		name          string
		first, second func(string, int64, func() error) error
	}{
		{"a write waits for a write", g.Do, g.Do}, // the pause of a holder may come between its check and its write
		{"a write waits for a read", g.Read, g.Write},
		{"a read waits for a write", g.Write, g.Read},
		{"Forget waits for a read", g.Read, forget},
		{"Forget waits for a write", g.Do, forget},
	} {
		t.Run(test.name, func(t *testing.T) {
			resource := fmt.Sprint("resource ", i)
			var order []int64 // protected by the guard alone
			running, resume, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
			var all sync.WaitGroup
			all.Go(func() {
				assert.NoError(t, test.first(resource, 1, func() error {
					close(running)
					<-resume
					order = append(order, 1)
					return nil
				}))
			})
			<-running
			all.Go(func() {
				defer close(done)
				assert.NoError(t, test.second(resource, 2, func() error { order = append(order, 2); return nil }))
			})
			require.NoError(t, g.Do(resource+" beside it", 1, nothing), "other resources do not wait")
			select {
			case <-done:
				t.Error("the second access ran while the first was under way")
			case <-time.After(20 * time.Millisecond):
			}
			close(resume)
			all.Wait()
			require.Equal(t, []int64{1, 2}, order)
		})
	}
}

// Many readers and writers come at once, with tokens in no order.
func TestGuardUnderConcurrentReadersAndWriters(t *testing.T) {
	var g fence.Guard
	var written int64         // protected by the guard alone; the race detector watches
	var greatest atomic.Int64 // of the reads
	var reads, writes atomic.Int64
	var all sync.WaitGroup
	for worker := range 8 {
		all.Go(func() {
			for i := range 500 {
				token := int64(1 + (i*8+worker*37)/6)
				var err error
				if (worker+i)%4 == 0 {
					err = g.Write("orders", token, func() error {
						writes.Add(1)
						assert.LessOrEqual(t, written, token)
						assert.Less(t, greatest.Load(), token)
						written = token
						return nil
					})
				} else {
					err = g.Read("orders", token, func() error {
						reads.Add(1)
						assert.LessOrEqual(t, written, token)
						for seen := greatest.Load(); seen < token && !greatest.CompareAndSwap(seen, token); {
							seen = greatest.Load()
						}
						return nil
					})
				}
				if err != nil {
					assert.ErrorIs(t, err, fence.ErrStale)
				}
			}
		})
	}
	all.Wait()
	require.ErrorIs(t, g.Write("orders", greatest.Load(), nothing), fence.ErrStale)
	t.Logf("of %d accesses %d reads and %d writes were accepted", 8*500, reads.Load(), writes.Load())
}

// A context of a lease that is lost ends with a cause that is redlock.ErrLost.
func TestErrorOfAnEndedContextIsItsCause(t *testing.T) {
	errLost := errors.New("the lease is lost")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errLost)
	conn := dial(t, startServer(t))
	db, books := openBooks()
	defer db.Close()
	for name, call := range map[string]func(context.Context) error{
		"Set":          func(ctx context.Context) error { return fence.Set(ctx, conn, "leader", 33, "alice") },
		"Get":          func(ctx context.Context) error { _, err := fence.Get(ctx, conn, "leader", 33); return err },
		"GetForUpdate": func(ctx context.Context) error { _, err := fence.GetForUpdate(ctx, conn, "leader", 33); return err },
		"Exec": func(ctx context.Context) error {
			return fence.Exec(ctx, db, "account 7", 33, update, 0, int64(33), 7)
		},
	} {
		err := call(ended)
		require.ErrorIs(t, err, errLost, name)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorContains(t, err, "the lease is lost", name)

		plain, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, call(plain), context.Canceled, name)
	}

	// The database reports the end of a statement that was under way in words of its own.
	running, cancel := context.WithCancelCause(t.Context())
	books.down, books.meanwhile = errors.New("canceling statement due to user request"), func() { cancel(errLost) }
	err := fence.Exec(running, db, "account 7", 33, update, 0, int64(33), 7)
	require.ErrorIs(t, err, errLost)
	require.ErrorIs(t, err, books.down)
}
