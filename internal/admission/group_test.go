package admission

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testreply"
)

// connect gives the member a connection to a run of a server that is never asked anything.
func connect(t *testing.T, m *Member, run string) {
	p := pipe.New(testreply.NewConn([]any{nil}))
	t.Cleanup(func() {
		p.Kill(io.EOF)
		<-p.Done()
	})
	m.Connected(p, run)
}

func TestLongestTTLNeverShrinks(t *testing.T) {
	m := newMember(Terms{TTL: 10 * time.Second})
	for _, ttl := range []time.Duration{20, 40, 30} {
		m.useTTL(ttl * time.Second)
		m.group.raiseLongest(2 * ttl * time.Second)
	}
	require.Equal(t, 40*time.Second, m.longestTTL())
	require.Equal(t, 80*time.Second, m.guard())
}

func TestTheGuardIsNotShorterThanAnyTTL(t *testing.T) {
	for _, c := range []struct{ guard, ttl, used, onRecord, want time.Duration }{
		{0, 1, 0, 0, 1},
		{1, 5, 2, 3, 5},
		{5, 1, 2, 3, 5},
		{1, 2, 5, 3, 5},
		{1, 2, 3, 5, 5},
	} {
		m := newMember(Terms{Guard: c.guard, TTL: c.ttl})
		m.useTTL(c.used)
		m.group.raiseLongest(c.onRecord)
		require.Equal(t, c.want, m.guard(), "%+v", c)
	}
}

func TestVoteRightIsBoundToItsConnectionAndRecord(t *testing.T) {
	m := newMember(Terms{TTL: time.Second})
	connect(t, m, "run")
	vote := func(record string) *VoteRight {
		m.current.set(VoteRight{Votes: true, Record: record})
		return m.Current()
	}
	before := vote("record")
	require.True(t, before.SameRecord(before))
	require.True(t, before.SameRecord(vote("record")), "a later check found the same record")
	require.False(t, before.SameRecord(vote("another")))
	require.False(t, before.SameRecord(nil), "the node is not connected now")
	require.False(t, (*VoteRight)(nil).SameRecord(before), "it was not connected before")

	m.current.fail(errors.New("not now"))
	withdrawn := *m.Current()
	withdrawn.Record = before.Record
	require.False(t, before.SameRecord(&withdrawn))

	connect(t, m, "run")
	require.False(t, before.SameRecord(vote("record")), "another connection")
}

func TestMemberVotesOnlyForTTLsOnRecord(t *testing.T) {
	m := newMember(Terms{TTL: time.Second})
	_, err := m.Right(0)
	require.EqualError(t, err, "not connected yet")

	connect(t, m, "run")
	m.current.set(VoteRight{Votes: true, Longest: 10 * time.Second})
	r, err := m.Right(10 * time.Second)
	require.NoError(t, err)
	require.Same(t, m.Current(), r)
	require.Empty(t, m.Recheck())
	_, err = m.Right(11 * time.Second)
	require.ErrorIs(t, err, ErrRegistering)
	require.Len(t, m.Recheck(), 1, "the ttl will be registered soon")
	require.Equal(t, 11*time.Second, m.longestTTL())

	m.current.wait(time.Minute, "name")
	_, err = m.Right(0)
	var quarantine *QuarantineError
	require.ErrorAs(t, err, &quarantine)
	require.Equal(t, time.Minute, quarantine.Left)

	m.current.fail(errors.New("not now"))
	_, err = m.Right(0)
	require.EqualError(t, err, "not now")
	m.Disconnected()
	require.Nil(t, m.Current())
}

func TestForgottenRecordEndsTheRightToVoteOnce(t *testing.T) {
	m := newMember(Terms{TTL: time.Second})
	m.Forgot(nil)
	require.Nil(t, m.orphan.Load())
	connect(t, m, "run")
	by := m.Current()
	m.Forgot(by)
	require.Same(t, by, m.Current(), "it does not vote")

	m.current.set(VoteRight{Votes: true, Record: "record"})
	by = m.Current()
	m.Forgot(by)
	require.ErrorIs(t, m.Current().Why(), ErrForgot)
	require.Equal(t, "record", *m.orphan.Load())
	require.Same(t, by.On(), m.Current().On())
	require.Equal(t, by.run, m.Current().run)

	m.current.set(VoteRight{Votes: true, Record: "newer"})
	now := m.Current()
	m.Forgot(by)
	require.Same(t, now, m.Current(), "a check has found it before")
}

func TestWithoutAdmissionEveryNodeVotes(t *testing.T) {
	m := newMember(Terms{TTL: time.Second, MaxTTL: time.Hour, Off: true})
	connect(t, m, "")
	require.Equal(t, ProbeInterval, m.Check(t.Context()))
	r, err := m.Right(time.Hour)
	require.NoError(t, err)
	require.Equal(t, "redlock::record:"+unknownRun, r.Record)
	m.Forgot(r)
	require.Same(t, r, m.Current())
}

// A node votes only if its server answered that its record is whole, whatever else it
// answers.
func FuzzAdmission(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		conn := testreply.NewConn(replies)
		p := pipe.New(conn)
		defer func() {
			p.Kill(io.EOF)
			<-p.Done()
		}()
		m := newMember(Terms{Guard: 10 * time.Second, TTL: 10 * time.Second, MaxTTL: time.Hour})
		m.Connected(p, "run")
		m.Check(t.Context())
		switch r := m.Current(); {
		case r == nil: // nothing is known of it yet
		case r.Votes:
			require.True(t, conn.SaidWhole, "%#v", replies)
		default:
			require.Error(t, r.Why())
		}
	}, []any{ // a quarantine that is over, and the answers that a refill needs then
		[]any{[]byte("barred"), []byte("name"), int64(0), int64(math.MaxInt64), []byte("name"), int64(1)},
		[]byte("older"), []any{[]byte("7"), []byte("12")}, []any{[]byte("1"), []byte("2")}, int64(1),
		[]any{[]byte("whole"), []byte("record"), []byte("1"), int64(1000), int64(1)}})
}

// The servers' clocks were set back by an hour, or a clock is wrong by years. The member's client has run for an hour.
func TestCountersBeginAboveAllThatTheClientKnows(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	latest := now.UnixMicro()
	most := protocol.GreatestBeginning(time.Duration(latest) * time.Microsecond)
	for name, c := range map[string]struct {
		read  []time.Time // what a server's clock showed when the client's was as it is now
		seen  int64
		wall  time.Time
		voted bool
		want  int64
	}{
		"nothing else":                            {nil, 0, now, false, latest},
		"a clock that was ahead":                  {[]time.Time{now.Add(time.Hour), now}, 0, now, true, latest + time.Hour.Microseconds()},
		"clocks that were behind":                 {[]time.Time{now.Add(-time.Hour)}, 0, now, true, latest},
		"a clock that was ahead by six years":     {[]time.Time{now.Add(6 * year), now}, 0, now, true, most},
		"a clock that was ahead by ten years":     {[]time.Time{now.Add(10 * year), now}, 0, now, true, latest},
		"a count":                                 {nil, latest + 7, now, true, latest + 7},
		"a count that was begun years ahead":      {nil, most + 7, now, true, most},
		"a new client's wall clock":               {nil, 0, now.Add(time.Hour), false, latest + time.Hour.Microseconds()},
		"the wall clock of one that saw a vote":   {nil, 0, now.Add(time.Hour), true, latest},
		"a new client's wall clock, never set":    {nil, 0, time.Time{}, false, latest},
		"a new client's wall clock, of year 9999": {nil, 0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), false, latest},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(Terms{})
			g := m.group
			g.cfg.Wall = func() time.Time { return c.wall }
			for _, at := range c.read {
				m.WatchClock(time.Duration(at.UnixNano()), g.cfg.Clock())
			}
			require.True(t, m.Believes(c.seen))
			g.voted.Store(c.voted)
			require.Equal(t, c.want, g.beginning(latest))
		})
	}
}

func TestCountThatIsNotBelievedIsNotSeen(t *testing.T) {
	m := newMember(Terms{})
	require.False(t, m.Believes(1<<52+1))
	require.Zero(t, m.counted.Load())
}

// The counters begin from the clock only if no quorum of admitted nodes can exist: an
// admitted node that does not answer may have higher counters.
func TestCountersBeginFromTheClockOnlyIfNoQuorumIsAdmitted(t *testing.T) {
	for n := 1; n <= 7; n++ {
		for admitted := range n {
			for unadmitted := 1; admitted+unadmitted <= n; unadmitted++ {
				c := &collected{nodes: n, quorum: n/2 + 1, admitted: admitted, unadmitted: unadmitted, times: []int64{protocol.FirstCount + 7}}
				c.counts[0], c.counts[1] = protocol.FirstCount+5, protocol.FirstCount+9
				left := n - unadmitted // at most so many are admitted
				want := nothing
				switch {
				case admitted >= c.quorum:
					want = others
				case left < c.quorum:
					want = clock
				}
				require.Equal(t, want, c.basis(), "%d: %d admitted, %d unadmitted", n, admitted, unadmitted)
				counts := c.countersFrom(c.latest())
				require.Equal(t, []int64{protocol.FirstCount + 7, protocol.FirstCount + 9, protocol.FirstCount + 7}, counts[:3])
				c.listed = "first second"
				if want != others {
					want = together
				}
				require.Equal(t, want, c.basis())
			}
		}
	}
}

// The latest of the clocks is no earlier than the one from which earlier counters began, but for one that nobody believes.
func TestCountersBeginFromTheLatestClock(t *testing.T) {
	const now, ahead int64 = 1_800_000_000_000_000, 3_600_000_000
	for _, times := range [][]int64{{int64(now + ahead), now, now - ahead}, {now - ahead, now, now + ahead}, {now, now + ahead, now - ahead, now << 1}} {
		require.Equal(t, now+ahead, (&collected{times: times}).latest(), "%v", times)
	}
}

func TestRecordsMergeToTheGreatest(t *testing.T) {
	c := new(collected)
	c.merge(&protocol.Memory{Counts: [protocol.Stripes]int64{5, 7, -1}, Longest: 1500 * time.Millisecond}, 6)
	c.merge(&protocol.Memory{Counts: [protocol.Stripes]int64{6, 3, 0}, Longest: 500 * time.Millisecond}, 6)
	require.Equal(t, []int64{6, 3, 0}, c.counts[:3])
	require.Equal(t, 1500*time.Millisecond, c.longest)
}

func TestMissingServerTimeIsAnError(t *testing.T) {
	refused := errors.New("connection refused")
	require.ErrorIs(t, new(collected).addTime(nil, refused), refused)
}

// Only records of known runs are deleted: if a run is unknown, its record may be in use by
// other clients.
func TestOnlyTheRecordOfAKnownRunIsObsolete(t *testing.T) {
	for _, c := range []struct {
		older         string
		olderRun, run protocol.Run
		obsolete      bool
	}{
		{"old", "a", "b", true},
		{"", "", "b", false},
		{"old", unknownRun, "b", false},
		{"old", "a", unknownRun, false},
	} {
		older, olderRun := (&collected{older: c.older, olderRun: c.olderRun}).obsolete(c.run)
		if !c.obsolete {
			c.older, c.olderRun = "", ""
		}
		require.Equal(t, c.older, older)
		require.Equal(t, c.olderRun, olderRun)
	}
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newMember makes the member of a group of one, without a connection. Its clock stands.
func newMember(terms Terms) *Member {
	terms.Nodes, terms.Quorum = 1, 1
	events := notify.NewQueue(slog.New(slog.DiscardHandler), false)
	cfg := &node.Config{
		Wall:       time.Now,
		Clock:      func() time.Duration { return time.Hour },
		Random:     system.OSRandom{},
		Events:     events,
		Identities: node.NewIdentities(),
		Majority:   node.NewMajority(1, system.Now, events),
		Closed:     io.EOF,
		DeadAfter:  time.Second,
	}
	terms.Life = context.Background()
	terms.Open = func([]string, string) (node.Pool, error) { return nil, io.EOF }
	terms.Moved, terms.Changed = func([]*Member) {}, func(_, _ *Roster) {}
	return NewGroup(terms, cfg).Add(node.New(0, "node 0", nil, cfg), "#0")
}
