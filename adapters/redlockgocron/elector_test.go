package redlockgocron_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgocron"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	termHold = 500 * time.Millisecond
	termTTL  = 4 * time.Second
)

func newElector(t *testing.T, client *redlock.Client) *redlockgocron.Elector {
	t.Helper()
	return newElectorOf(t, client, termHold)
}

func newElectorOf(t *testing.T, client *redlock.Client, minHold time.Duration) *redlockgocron.Elector {
	t.Helper()
	elector, err := redlockgocron.NewElector(client, "leader", minHold, redlock.WithTTL(termTTL), redlock.WithNodeTimeout(termTTL*2/5))
	require.NoError(t, err)
	t.Cleanup(elector.Close)
	return elector
}

// awaitLead waits until the machine leads.
func awaitLead(t *testing.T, e *redlockgocron.Elector) {
	t.Helper()
	require.Eventually(t, func() bool { return e.IsLeader(t.Context()) == nil }, patience, poll)
}

// awaitRefusal waits until IsLeader returns an error that is as wanted.
func awaitRefusal(t *testing.T, e *redlockgocron.Elector, wanted func(error) bool) {
	t.Helper()
	var err error
	require.Eventually(t, func() bool {
		err = e.IsLeader(t.Context())
		return err != nil && wanted(err)
	}, patience, poll, "the last answer: %v", &err)
}

func TestOneMachineLeadsAndTheOthersNameIt(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	began := time.Now()
	first := newElector(t, openClient(t, nodes, "first"))
	awaitLead(t, first)
	assert.GreaterOrEqual(t, time.Since(began), termHold, "a leader begins with a minimum hold")

	second := newElector(t, openClient(t, nodes, "second"))
	awaitRefusal(t, second, func(err error) bool {
		var held *redlock.HeldError
		return errors.As(err, &held) && held.Label == "first"
	})

	awaitLead(t, first)
	answered := time.Now()
	first.Close()
	assert.ErrorContains(t, first.IsLeader(t.Context()), "its Elector is closed")
	assert.GreaterOrEqual(t, time.Since(answered), termHold*9/10, "it leads for the minimum hold after its last answer")
	awaitLead(t, second)
	first.Close()
}

func TestALeaderWithoutAMajorityStopsBeforeItsLeaseEnds(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	elector := newElectorOf(t, openClient(t, nodes, "first"), termTTL/2)
	awaitLead(t, elector)
	nodes.Stop(0)
	awaitLead(t, elector)
	nodes.Stop(1)
	awaitRefusal(t, elector, func(err error) bool { return strings.Contains(err.Error(), `may lead "leader" for`) })
	awaitRefusal(t, elector, func(err error) bool { return errors.Is(err, redlock.ErrNoQuorum) })
	require.NoError(t, nodes.Start(0))
	awaitLead(t, elector)
}

func TestAnElectorWhoseClientIsClosedSaysSo(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 3), "both")
	leader, waiter := newElector(t, client), newElector(t, client)
	require.Eventually(t, func() bool {
		return leader.IsLeader(t.Context()) == nil || waiter.IsLeader(t.Context()) == nil
	}, patience, poll)
	require.NoError(t, client.Close())
	for _, e := range []*redlockgocron.Elector{leader, waiter} {
		awaitRefusal(t, e, func(err error) bool { return errors.Is(err, redlock.ErrClosed) })
	}
}

func TestOnlyTheLeadersSchedulerRunsJobs(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	var runs [2]atomic.Int32
	var electors []*redlockgocron.Elector
	for i, machine := range []string{"first", "second"} {
		electors = append(electors, newElector(t, openClient(t, nodes, machine)))
		if i == 0 {
			awaitLead(t, electors[0])
		}
		startScheduler(t, gocron.CronJob("* * * * * *", true), gocron.NewTask(func() { runs[i].Add(1) }),
			gocron.WithDistributedElector(electors[i]))
	}
	require.Eventually(t, func() bool { return runs[0].Load() >= 2 }, patience, poll)
	require.Zero(t, runs[1].Load())
	electors[0].Close()
	led := runs[0].Load()
	require.Eventually(t, func() bool { return runs[1].Load() >= 1 }, patience, poll,
		"its scheduler goes on asking while it does not lead")
	assert.Equal(t, led, runs[0].Load())
}

func TestWaitReturnsWhenThisMachineLeadsOrNeverWill(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	first := newElector(t, openClient(t, nodes, "first"))
	require.NoError(t, first.Wait(within(t)))
	require.NoError(t, first.IsLeader(t.Context()))

	client := openClient(t, nodes, "second")
	second := newElector(t, client)
	brief, cancel := context.WithTimeoutCause(t.Context(), time.Second, errors.New("the program stops"))
	defer cancel()
	err := second.Wait(brief)
	require.ErrorIs(t, err, context.DeadlineExceeded)
	require.ErrorContains(t, err, `this machine does not lead "leader"`)
	require.ErrorContains(t, err, "the program stops")

	waited := make(chan error, 1)
	go func() { waited <- second.Wait(within(t)) }()
	first.Close()
	require.NoError(t, <-waited)
	require.NoError(t, client.Close())
	for e, text := range map[*redlockgocron.Elector]string{first: "its Elector is closed", second: redlock.ErrClosed.Error()} {
		err := e.Wait(within(t))
		require.ErrorContains(t, err, text)
		require.NotErrorIs(t, err, context.DeadlineExceeded, "it waited in vain")
	}
}

// gocron asks once whether such a job may run. No machine leads yet when a program starts.
func TestAOneTimeJobThatStartsAtOnceRunsBehindWait(t *testing.T) {
	elector := newElector(t, openClient(t, redlocktest.Start(t, 3), "machine"))
	require.NoError(t, elector.Wait(within(t)))
	ran := make(chan struct{})
	startScheduler(t, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { close(ran) }),
		gocron.WithDistributedElector(elector))
	select {
	case <-ran:
	case <-time.After(patience):
		t.Error("it never runs")
	}
}
