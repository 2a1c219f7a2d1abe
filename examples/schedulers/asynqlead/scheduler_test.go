package asynqlead

import (
	"context"
	"fmt"
	"log"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	ttl      = 2 * time.Second
	margin   = 500 * time.Millisecond
	patience = 30 * time.Second
	poll     = 5 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// machine is one of those that take part.
type machine struct {
	client   *redlock.Client
	enqueued atomic.Int32 // tasks
	terms    atomic.Int32 // schedulers that it made
	end      context.CancelFunc
	ended    chan error
}

// startMachine lets a machine take part. A task is enqueued each second.
func startMachine(nodes *redlocktest.Nodes, queue string) *machine {
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(nil), redlock.WithTTL(ttl))
	if err != nil {
		log.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	m := &machine{client: client, end: cancel, ended: make(chan error, 1)}
	go func() {
		m.ended <- RunScheduler(ctx, client, "scheduler", margin, func(check func(*asynq.Task, []asynq.Option)) *asynq.Scheduler {
			m.terms.Add(1)
			scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: queue}, &asynq.SchedulerOpts{
				LogLevel: asynq.FatalLevel, PreEnqueueFunc: check,
				PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
					if err == nil {
						m.enqueued.Add(1)
					}
				},
			})
			if _, err := scheduler.Register("@every 1s", asynq.NewTask("report", nil)); err != nil {
				log.Fatal(err)
			}
			return scheduler
		})
	}()
	return m
}

// stop ends the machine's part, and returns what RunScheduler returned.
func (m *machine) stop() error {
	m.end()
	defer m.client.Close()
	return <-m.ended
}

// A machine makes schedulers only while it leads.
func ExampleRunScheduler() {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	defer nodes.Close()
	queue, err := miniredis.Run() // in place of asynq's Redis
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()

	first := startMachine(nodes, queue.Addr())
	for first.enqueued.Load() == 0 {
		time.Sleep(poll)
	}
	second := startMachine(nodes, queue.Addr())
	for led := first.enqueued.Load(); first.enqueued.Load() == led; {
		time.Sleep(poll)
	}
	fmt.Println("the second machine waits, schedulers:", second.terms.Load())
	fmt.Println("the first machine ends:", first.stop() != nil)
	for second.enqueued.Load() == 0 {
		time.Sleep(poll)
	}
	fmt.Println("the second machine leads, schedulers:", second.terms.Load())
	_ = second.stop()
	// Output:
	// the second machine waits, schedulers: 0
	// the first machine ends: true
	// the second machine leads, schedulers: 1
}

func TestALeaderThatLosesItsLeaseEndsItsSchedulerAndLeadsAgain(t *testing.T) {
	nodes, queue := redlocktest.Start(t, 3), miniredis.RunT(t)
	m := startMachine(nodes, queue.Addr())
	require.Eventually(t, func() bool { return m.enqueued.Load() > 0 }, patience, poll)
	require.Eventually(t, func() bool { // the servers of a busy machine may not answer within a node timeout
		_, err := m.client.ForceUnlock(t.Context(), "scheduler")
		return err == nil
	}, patience, poll)
	require.Eventually(t, func() bool { return m.terms.Load() >= 2 }, patience, poll)
	led := m.enqueued.Load()
	require.Eventually(t, func() bool { return m.enqueued.Load() > led }, patience, poll)
	require.ErrorIs(t, m.stop(), context.Canceled)
}

// The lease is valid, but never for as long as the margin.
func TestNothingIsEnqueuedNearTheEndOfALease(t *testing.T) {
	nodes, queue := redlocktest.Start(t, 3), miniredis.RunT(t)
	client, err := redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithLogger(nil), redlock.WithMaxHold(4*time.Second))
	require.NoError(t, err)
	defer client.Close()
	checked, enqueued := make(chan struct{}, 100), atomic.Int32{}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		const never = time.Minute // no lease lasts that long
		ended <- RunScheduler(ctx, client, "scheduler", never, func(check func(*asynq.Task, []asynq.Option)) *asynq.Scheduler {
			scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: queue.Addr()}, &asynq.SchedulerOpts{
				LogLevel:        asynq.FatalLevel,
				PreEnqueueFunc:  func(task *asynq.Task, opts []asynq.Option) { checked <- struct{}{}; check(task, opts) },
				PostEnqueueFunc: func(*asynq.TaskInfo, error) { enqueued.Add(1) },
			})
			_, err := scheduler.Register("@every 1s", asynq.NewTask("report", nil))
			assert.NoError(t, err)
			return scheduler
		})
	}()
	<-checked
	<-checked
	cancel() // RunScheduler keeps the lock for the margin, here until the lease ends
	require.ErrorIs(t, <-ended, context.Canceled)
	assert.Zero(t, enqueued.Load())
	assert.False(t, queue.Exists("asynq:{default}:pending"))
}
