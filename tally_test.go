package redlock

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
)

// voicesOf builds a tally.
func voicesOf(counts map[voice]int) *tally {
	var t tally
	for v, n := range counts {
		t[v] = n
	}
	return &t
}

func TestAnAcquireIsDecidedAsSoonAsItIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		counts    map[voice]int
		strongest int
		want      verdict
	}{
		"two of three votes are no quorum of five": {map[voice]int{mine: 2, pending: 3}, 0, open},
		"the third grant decides":                  {map[voice]int{mine: 3, pending: 2}, 0, granted},
		"two silent leave it open":                 {map[voice]int{mine: 2, silent: 2, pending: 1}, 0, open},
		"three silent end it":                      {map[voice]int{mine: 1, silent: 3, pending: 1}, 0, failed},
		"one holder at a quorum ends it":           {map[voice]int{others: 3, pending: 2}, 3, failed},
		"three holders, one may yet have a quorum": {map[voice]int{others: 3, pending: 2}, 1, failing},
		"three holders and no room for a quorum":   {map[voice]int{mine: 1, others: 3, pending: 1}, 1, failed},
		"one holder, the silent may be its quorum": {map[voice]int{others: 1, silent: 2, pending: 2}, 1, failing},
		"all voted": {map[voice]int{mine: 2, others: 2, silent: 1}, 2, failed},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, decideAcquire(voicesOf(c.counts), 3, c.strongest, false))
		})
	}
}

func TestAWaiterHearsAllVotesWhereItHoldsNobodyUp(t *testing.T) {
	patient := func(counts map[voice]int, strongest int) verdict {
		return decideAcquire(voicesOf(counts), 3, strongest, true)
	}
	require.Equal(t, outvoted, patient(map[voice]int{others: 3, pending: 2}, 3))
	require.Equal(t, failed, patient(map[voice]int{others: 5}, 5))
	require.Equal(t, failing, patient(map[voice]int{mine: 1, others: 3, pending: 1}, 2), "the votes are split: give them back at once")
	require.Equal(t, open, patient(map[voice]int{others: 3, pending: 2}, 2), "nothing to give back, but bids that may be executed")
	require.Equal(t, granted, patient(map[voice]int{mine: 3, others: 2}, 2))
}

func TestAnAcquireNeedsAQuorumOfTheConfiguredNodes(t *testing.T) {
	for n := 1; n <= maxNodes; n++ {
		quorum := n/2 + 1
		for yes := 0; yes <= n; yes++ {
			got := decideAcquire(voicesOf(map[voice]int{mine: yes, silent: n - yes}), quorum, 0, false)
			require.Equal(t, 2*yes > n, got == granted, "%d of %d", yes, n)
		}
	}
}

func TestARenewalIsDecidedByMineRestoredAndGone(t *testing.T) {
	for name, c := range map[string]struct {
		counts map[voice]int
		want   verdict
	}{
		"a quorum is still mine":                           {map[voice]int{mine: 3, pending: 2}, granted},
		"mine and restored, while others may show a loss":  {map[voice]int{mine: 2, restored: 1, pending: 2}, open},
		"mine and restored, when no loss can be shown":     {map[voice]int{mine: 2, restored: 1, silent: 2}, granted},
		"mine and restored, too few left to show a loss":   {map[voice]int{mine: 3, restored: 1, pending: 1}, granted},
		"a quorum had lost it":                             {map[voice]int{mine: 2, restored: 3}, taken},
		"a quorum had lost it, some to others":             {map[voice]int{restored: 2, others: 1, pending: 2}, taken},
		"too few answers":                                  {map[voice]int{mine: 2, silent: 3}, failed},
		"restored alone, short of a quorum":                {map[voice]int{restored: 2, silent: 3}, failed},
		"the last vote may yet renew it":                   {map[voice]int{mine: 1, restored: 1, silent: 2, pending: 1}, open},
		"no quorum possible, but a loss may yet be shown":  {map[voice]int{others: 2, silent: 1, mine: 1, pending: 1}, open},
		"no quorum possible, a loss can't be shown either": {map[voice]int{mine: 1, silent: 3, pending: 1}, failed},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, decideRenew(voicesOf(c.counts), 3))
		})
	}
}

func TestARepliesMeaningDependsOnWhatWasAsked(t *testing.T) {
	held := []any{[]byte("them"), int64(1500)}
	for name, c := range map[string]struct {
		kind  *ballotKind
		reply any
		err   error
		want  answer
	}{
		"granted":                   {acquiring, int64(7), nil, answer{voice: mine, outcome: Granted, token: 7}},
		"held":                      {acquiring, held, nil, answer{voice: others, outcome: Refused, holder: "them", remaining: 1500 * time.Millisecond}},
		"held for good":             {acquiring, []any{[]byte("them"), int64(-1)}, nil, answer{voice: others, outcome: Refused, holder: "them", remaining: -1}},
		"restored":                  {renewing, int64(2), nil, answer{voice: restored, outcome: Granted}},
		"released":                  {releasing, int64(1), nil, answer{voice: mine, outcome: Granted}},
		"kept for who yields":       {releasing, int64(2), nil, answer{voice: mine, outcome: Granted}},
		"handed over to another":    {releasing, int64(3), nil, answer{voice: mine, outcome: Granted, handed: true}},
		"held for less than a tick": {acquiring, []any{[]byte("them"), int64(0)}, nil, answer{voice: others, outcome: Refused, holder: "them"}},
		"held for as long as a Duration tells": {acquiring, []any{[]byte("them"), int64(forever / ms)}, nil,
			answer{voice: others, outcome: Refused, holder: "them", remaining: forever / ms * ms}},
		"nothing to free": {releasing, int64(0), nil, answer{voice: absent, outcome: Granted}},
		"alive":           {pinging, "PONG", nil, answer{voice: mine, outcome: Granted}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, understand(c.kind, c.reply, c.err))
		})
	}
	for name, c := range map[string]struct {
		kind  *ballotKind
		reply any
		err   error
		want  Outcome
	}{
		"a restored key is no grant":    {claiming, int64(2), nil, Unknown},
		"lost memory":                   {acquiring, int64(-1), nil, Refused},
		"zero is no grant":              {acquiring, int64(0), nil, Unknown},
		"nothing":                       {acquiring, nil, nil, Unknown},
		"a word":                        {acquiring, "OK", nil, Unknown},
		"a holder without a ttl":        {acquiring, []any{[]byte("them")}, nil, Unknown},
		"no holder":                     {acquiring, []any{nil, int64(-2)}, nil, Unknown},
		"a ttl beyond a Duration":       {acquiring, []any{[]byte("them"), int64(forever/ms) + 1}, nil, Unknown},
		"a ttl beyond reason":           {acquiring, []any{[]byte("them"), int64(1 << 62)}, nil, Unknown},
		"an error in a script, 6.2":     {acquiring, nil, redis.Error("ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -OOM command not allowed"), Refused},
		"missing scripts":               {acquiring, nil, redis.Error("NOSCRIPT No matching script."), NotSent},
		"never sent":                    {acquiring, nil, fmt.Errorf("%w: broken", pipe.ErrNotSent), NotSent},
		"an error reply":                {acquiring, nil, redis.Error("OOM command not allowed"), Refused},
		"a broken connection":           {acquiring, nil, errors.New("EOF"), Unknown},
		"a word in place of a release":  {releasing, "OK", nil, Unknown},
		"four in place of a release":    {releasing, int64(4), nil, Unknown},
		"a number in place of the pong": {pinging, int64(1), nil, Unknown},
		"a pair in place of a release":  {releasing, held, nil, Unknown},
		"bytes in place of a number":    {acquiring, []byte("them"), nil, Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := understand(c.kind, c.reply, c.err)
			require.Equal(t, silent, got.voice)
			require.Equal(t, c.want, got.outcome)
			require.Error(t, got.cause)
		})
	}
}
