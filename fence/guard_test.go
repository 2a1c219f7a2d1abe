package fence_test

import (
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

// The pause of the holder may come between the check and the write.
func TestANewerTokenWaitsForAnOlderWriteThatIsUnderWay(t *testing.T) {
	var g fence.Guard
	var order []int64 // protected by the guard alone
	writing, resume, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go g.Do("orders", 1, func() error {
		close(writing)
		<-resume
		order = append(order, 1)
		return nil
	})
	<-writing
	go func() {
		defer close(done)
		assert.NoError(t, g.Do("orders", 2, func() error { order = append(order, 2); return nil }))
	}()
	require.NoError(t, g.Do("invoices", 1, nothing), "other resources do not wait")
	select {
	case <-done:
		t.Fatal("the newer write ran while the older one was under way")
	case <-time.After(20 * time.Millisecond):
	}
	close(resume)
	<-done
	require.Equal(t, []int64{1, 2}, order)
}

func TestForgetWaitsForTheWriteThatIsUnderWay(t *testing.T) {
	var g fence.Guard
	writing, resume := make(chan struct{}), make(chan struct{})
	var written atomic.Bool
	go g.Do("orders", 9, func() error {
		close(writing)
		<-resume
		written.Store(true)
		return nil
	})
	<-writing
	forgotten := make(chan struct{})
	go func() {
		defer close(forgotten)
		g.Forget("orders")
		assert.True(t, written.Load())
	}()
	close(resume)
	<-forgotten
	require.NoError(t, g.Do("orders", 1, nothing), "a forgotten resource accepts any token")
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
