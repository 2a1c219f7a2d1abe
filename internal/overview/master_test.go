package overview

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/node"
)

func TestEachAnchorIsASectionOfTheRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	sections := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		sections[strings.ReplaceAll(kept, " ", "-")] = true
	}
	again := "it is known, and it votes again with the counters of 2 other nodes that vote (1 answered)"
	for _, n := range []redlock.NodeStats{
		{State: "stalled"}, {State: "quarantined", Err: errors.New("it does not vote for another 7s")},
		{State: "quarantined", Err: errors.New(again)}, {State: "down", Err: errors.New("connection refused")},
		{State: "down", Err: redis.Error("LOADING")}, {State: "unfit", Err: redis.Error("WRONGPASS")},
		{State: "unfit", Err: redis.Error("DENIED")}, {State: "unfit", Err: &node.UnfitError{Reason: "it is a replica"}},
	} {
		for _, available := range []bool{true, false} {
			m := newMaster(&n, available)
			require.True(t, sections[m.Anchor], "%q of %+v", m.Anchor, m)
			require.NotEmpty(t, m.Cause)
			require.True(t, strings.HasSuffix(m.Remedy, "."), m.Remedy)
			require.NotEqual(t, OK, m.Level)
		}
	}
	require.Equal(t, Master{Node: "x", State: "up", Level: OK}, newMaster(&redlock.NodeStats{Node: "x", State: "up"}, true))
}

func TestHeadlineSaysWhetherLocksAreAvailable(t *testing.T) {
	refused := &redlock.QuorumError{Op: "ping", RetryAfter: 11500 * time.Millisecond}
	for _, h := range []struct {
		masters, voting int
		ping            error
		level           Level
		text            string
	}{
		{5, 5, nil, OK, "Locks are available: 5 of 5 masters vote, 2 more may fail."},
		{5, 4, nil, Warning, "Locks are available: 4 of 5 masters vote, 1 more may fail."},
		{5, 3, nil, Warning, "Locks are available: 3 of 5 masters vote, none of them may fail."},
		{1, 1, nil, OK, "Locks are available: 1 of 1 master votes, none of them may fail."},
		{5, 2, refused, Error, "Locks are not available: 2 of 5 masters vote, and 3 must. They vote again in 12s."},
		{5, 5, errors.New("slow"), Error, "Locks are not available: 5 of 5 masters vote, but fewer than 3 answered in time."},
	} {
		is := newHeadline(h.masters, h.voting, h.ping)
		require.Equal(t, h.text, is.Text)
		require.Equal(t, h.level, is.Level, h.text)
		require.Equal(t, h.level != Error, is.Available, h.text)
		require.Equal(t, fmt.Sprint(h.masters/2+1), fmt.Sprint(is.Quorum))
	}
}
