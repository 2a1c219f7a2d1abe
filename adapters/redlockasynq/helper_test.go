package redlockasynq

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	patience = 30 * time.Second
	poll     = 5 * time.Millisecond
	lockName = "periodic"
	window   = time.Minute
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// noon is where the tests' clocks begin.
var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func openClient(t *testing.T, nodes *redlocktest.Nodes) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs())
}

// periodic is a config of a task without a payload.
func periodic(spec, kind string, opts ...asynq.Option) *asynq.PeriodicTaskConfig {
	return &asynq.PeriodicTaskConfig{Cronspec: spec, Task: asynq.NewTask(kind, nil), Opts: opts}
}

// named is a config of a task whose type is its TaskID, too.
func named(spec, id string, opts ...asynq.Option) *asynq.PeriodicTaskConfig {
	return periodic(spec, id, append(opts, asynq.TaskID(id))...)
}

// lines are what a logger got.
type lines struct {
	mu  sync.Mutex
	all []string
}

func (l *lines) add(args ...any) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.all = append(l.all, fmt.Sprint(args...))
}

func (l *lines) Debug(args ...any) { l.add(args...) }
func (l *lines) Info(args ...any)  { l.add(args...) }
func (l *lines) Warn(args ...any)  { l.add(args...) }
func (l *lines) Error(args ...any) { l.add(args...) }
func (l *lines) Fatal(args ...any) { l.add(args...) }

func (l *lines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Join(l.all, "\n")
}

// stage is what terms of a test share: the nodes' client, asynq's Redis, and a clock that the test
// sets.
type stage struct {
	t      *testing.T
	client *redlock.Client
	queue  *miniredis.Miniredis
	store  redis.UniversalClient
	clock  time.Time
	log    *lines
	opts   asynq.PeriodicTaskManagerOpts
}

func newStage(t *testing.T) *stage {
	t.Helper()
	s := &stage{t: t, client: openClient(t, redlocktest.Start(t, 3)), queue: miniredis.RunT(t), clock: noon}
	s.log = &lines{}
	s.store = redis.NewClient(&redis.Options{Addr: s.queue.Addr(), MaxRetries: -1})
	t.Cleanup(func() { assert.NoError(t, s.store.Close()) })
	s.opts.SchedulerOpts = &asynq.SchedulerOpts{Logger: s.log}
	return s
}

// lead begins a term of a new leader with entries of these schedules. Their tasks' types are "a",
// "b" and so on.
func (s *stage) lead(specs ...string) *term {
	s.t.Helper()
	var tasks Tasks
	for i, spec := range specs {
		tasks = append(tasks, named(spec, string(rune('a'+i))))
	}
	return s.leadTasks(tasks)
}

func (s *stage) leadTasks(tasks Tasks) *term {
	s.t.Helper()
	var lease *redlock.Lease
	require.Eventually(s.t, func() (locked bool) {
		var err error
		lease, err = s.client.Mutex(lockName).Lock(s.t.Context())
		return err == nil
	}, patience, poll)
	term := newTerm(lease, s.store, window, s.opts)
	term.now = func() time.Time { return s.clock }
	term.begin()
	term.use(tasks)
	require.NoError(s.t, term.round(s.t.Context()))
	return term
}

// end ends a term.
func (s *stage) end(term *term) {
	s.t.Helper()
	_ = term.lease.Unlock(s.t.Context())
}

// after sets the clock to an instant after noon, and lets a leader enqueue what is due.
func (s *stage) after(d time.Duration, term *term) {
	s.t.Helper()
	s.clock = noon.Add(d)
	require.NoError(s.t, term.round(s.t.Context()))
}

// enqueued returns the tasks at asynq's Redis, the oldest first: the part of the ID before the @,
// and the seconds after noon.
func (s *stage) enqueued() (ids []string) {
	s.t.Helper()
	pending, err := s.queue.List("asynq:{default}:pending")
	if err != nil { // it is empty
		return nil
	}
	for _, id := range slices.Backward(pending) {
		name, due, _ := strings.Cut(id, "@")
		at, err := time.Parse(time.RFC3339, due)
		require.NoError(s.t, err)
		ids = append(ids, fmt.Sprintf("%s%g", name, at.Sub(noon).Seconds()))
	}
	return ids
}

// member is a process that calls Run.
type member struct {
	asked chan struct{} // has a value if its provider was asked
	end   context.CancelFunc
	ended chan error
}

// startMember lets a process take part, which has a client of its own.
func startMember(t *testing.T, nodes *redlocktest.Nodes, opts asynq.PeriodicTaskManagerOpts) *member {
	t.Helper()
	client := openClient(t, nodes)
	ctx, cancel := context.WithCancel(context.Background())
	m := &member{asked: make(chan struct{}, 1), end: cancel, ended: make(chan error, 1)}
	opts.PeriodicTaskConfigProvider = askedProvider{opts.PeriodicTaskConfigProvider, m.asked}
	go func() { m.ended <- Run(ctx, client.Mutex(lockName), DefaultWindow, opts) }()
	t.Cleanup(func() { assert.ErrorIs(t, m.stop(), context.Canceled) })
	return m
}

// stop ends the process's part, and returns what Run returned.
func (m *member) stop() error {
	m.end()
	err := <-m.ended
	m.ended <- err
	return err
}

type askedProvider struct {
	asynq.PeriodicTaskConfigProvider
	asked chan struct{}
}

func (p askedProvider) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	select {
	case p.asked <- struct{}{}:
	default:
	}
	return p.PeriodicTaskConfigProvider.GetConfigs()
}
