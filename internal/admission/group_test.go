package admission

import (
	"errors"
	"io"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
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
