package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testreply"
)

func TestChannelsOfHoldersAreNoClients(t *testing.T) {
	for _, key := range []string{"redlock:x", "=", "?x", "redlock::wake:x", strings.Repeat("x", protocol.MaxKey)} {
		about, asks := protocol.SubjectOf(protocol.NewsChannel(key))
		require.Equal(t, key, about)
		require.False(t, asks)
		about, asks = protocol.SubjectOf(protocol.QuestionChannel(key))
		require.Equal(t, key, about)
		require.True(t, asks)
	}
	for _, channel := range []string{protocol.WakeChannel("AAAAAAAAAAAAAAAA"), ""} {
		about, asks := protocol.SubjectOf(channel)
		require.Empty(t, about)
		require.False(t, asks)
	}
}

func TestAnnouncementIsReadAsItWasMade(t *testing.T) {
	for _, a := range []protocol.Announcement{{}, {Owner: "owner", Token: 7}, {Owner: "owner of two words @ here"}, {Owner: " ", Token: 1 << 52}} {
		require.Equal(t, a, protocol.ReadAnnouncement(a.String()))
	}
	for _, text := range []string{"", " ", "x", "x owner", "-1 owner", "9999999999999999999 owner", "1 " + strings.Repeat("x", 513), "1 " + protocol.Shared} {
		require.Zero(t, protocol.ReadAnnouncement(text), text)
	}
}

func TestHeldBy(t *testing.T) {
	for value, holder := range map[string]string{"": "", "me": "me", protocol.Shared: protocol.Shared, protocol.Resting + "me": "",
		protocol.Reservation + "ticket": "", protocol.EmptyHolder: protocol.EmptyHolder} {
		require.Equal(t, holder, protocol.HeldBy(value), value)
	}
}

func TestObserveShowsSeveralLocks(t *testing.T) {
	conn := dial(t)
	for _, command := range []string{"FLUSHALL", "SET a me PX 1500", "SET b them", "HSET d other 1", "HSET record " + protocol.StripeOf("a") + " 7"} {
		words := strings.Fields(command)
		args := make([]any, len(words)-1)
		for i, word := range words[1:] {
			args[i] = word
		}
		_, err := conn.Do(words[0], args...)
		require.NoError(t, err)
	}
	reply, err := conn.Do("EVAL", protocol.ObserveCall("record", []string{"a", "b", "c", "d", "e"}).Eval()...)
	require.NoError(t, err)
	all, err := protocol.ReadSights(reply, nil, 5)
	require.NoError(t, err)
	require.InDelta(t, 1500*time.Millisecond, all[0].Remaining, float64(time.Second))
	all[0].Remaining = 0
	require.Equal(t, []protocol.Sight{{Holder: "me", Count: 7}, {Holder: "them", Remaining: protocol.Endless}, {}, {Holder: protocol.EmptyHolder, Remaining: protocol.Endless}, {}}, all)
	_, err = protocol.ReadSights(reply, nil, 4)
	require.ErrorContains(t, err, "15 parts, not 12")
}

func FuzzSights(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		all, err := protocol.ReadSights(replies[0], nil, 2)
		require.Equal(t, err == nil, len(all) == 2)
	})
}
