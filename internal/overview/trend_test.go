package overview

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/system"
)

// Looks each second at a holder that renews at each third of its ttl, from any instant on: it never seems to run down, and
// is known to renew within a third of the ttl.
func TestHolderThatRenewsNeverSeemsToRunDown(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
		every := ttl / 3
		for begin := time.Duration(0); begin < every; begin += every / 7 {
			ends := func(at time.Duration) time.Duration { return at/every*every + ttl }
			is := first(begin, ends(begin))
			for at := begin + time.Second; at < begin+5*ttl; at += time.Second {
				is = is.next(at, ends(at), lookSlack, false)
				require.NotEqual(t, RunsDown, is.direction, "ttl %v, after %v", ttl, at-begin)
				if at-begin > every+time.Second {
					require.Equal(t, Renews, is.direction, "ttl %v, after %v", ttl, at-begin)
				}
			}
		}
	}
}

// A holder that does not renew is found within half of the time that it has left; so is one that renews no more.
func TestHolderThatDoesNotRenewRunsDown(t *testing.T) {
	const second = time.Second
	is := first(0, 8*second)
	for at := second; at <= 7*second; at += second {
		is = is.next(at, 8*second, lookSlack, false)
		want := Unknown
		if at > 4*second {
			want = RunsDown
		}
		require.Equal(t, want, is.direction, "after %v", at)
	}
	is = is.next(8*second, 18*second, lookSlack, false)
	require.Equal(t, Renews, is.direction, "it was late")
	is = is.next(13*second, 18*second, lookSlack, false)
	require.Equal(t, Renews, is.direction)
	is = is.next(14*second, 18*second, lookSlack, false)
	require.Equal(t, RunsDown, is.direction)
}

func TestForeignKeyRunsDownFromTheSecondLookUntilSomethingProlongsIt(t *testing.T) {
	const second = time.Second
	is := first(0, time.Hour)
	require.Equal(t, Unknown, is.direction)
	is = is.next(second, time.Hour, lookSlack, true)
	require.Equal(t, RunsDown, is.direction)
	is = is.next(2*second, time.Hour+30*time.Millisecond, lookSlack, true)
	require.Equal(t, RunsDown, is.direction, "the answer came later")
	is = is.next(3*second, time.Hour+2*second, lookSlack, true)
	require.Equal(t, Renews, is.direction)
	is = is.next(4*second, system.Forever, lookSlack, true)
	require.Equal(t, Endless, is.direction)
	is = is.next(5*second, 9*second, lookSlack, true)
	require.Equal(t, Unknown, is.direction)
}
