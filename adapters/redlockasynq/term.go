package redlockasynq

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

const (
	// maxSleep bounds how long a leader sleeps: the wall clock may be set, and failed ticks are
	// tried again.
	maxSleep = time.Second

	// saveEvery is how often a leader without ticks writes the record.
	saveEvery = time.Second

	// giveUpAfter is for how long the record may fail until another process leads: it may reach
	// asynq's Redis.
	giveUpAfter = 10 * time.Second

	// tryTimeout bounds a command at asynq's Redis, between the client's own tries: while one lasts, no
	// other tick is tried.
	tryTimeout = 5 * time.Second

	// maxTogether bounds the tasks that are enqueued at the same time.
	maxTogether = 16
)

// term is the time for which a process leads.
type term struct {
	lease    *redlock.Lease
	queue    *asynq.Client
	record   record
	window   time.Duration
	opts     asynq.PeriodicTaskManagerOpts
	log      logger
	location *time.Location
	now      func() time.Time // the wall clock

	entries map[string]*entry // by name
	began   time.Time         // by now
	settled time.Time         // the ticks up to it are enqueued, given up, or in failed
	failed  []tick            // to be tried again
	unread  error             // why the record is not read yet; nil: it is
	saved   time.Time         // when the record was written, or the term began, by the monotonic clock
}

var errUnread = errors.New("redlockasynq: the record is not read yet")

func newTerm(
	lease *redlock.Lease, store redis.UniversalClient, window time.Duration, opts asynq.PeriodicTaskManagerOpts,
) *term {
	t := &term{
		lease:    lease,
		queue:    asynq.NewClientFromRedisClient(store),
		record:   record{store, recordPrefix + lease.Name()},
		window:   window,
		opts:     opts,
		log:      newLogger(opts.SchedulerOpts),
		location: opts.Location,
		now:      func() time.Time { return time.Now().Round(0) },
		unread:   errUnread,
	}
	if t.location == nil {
		t.location = time.UTC // as asynq
	}
	return t
}

// run enqueues what is due until ctx ends, or the lease, or asynq's Redis fails for long. It
// returns why.
func (t *term) run(ctx context.Context) error {
	configs, err := t.opts.PeriodicTaskConfigProvider.GetConfigs()
	if err != nil {
		return fmt.Errorf("redlockasynq: GetConfigs: %w", err)
	}
	t.begin()
	t.use(configs)

	ctx, cancel := context.WithCancel(ctx)
	lists := make(chan []*asynq.PeriodicTaskConfig)
	var provider sync.WaitGroup
	provider.Go(func() { t.provide(ctx, lists) })
	defer provider.Wait()
	defer cancel()
	for {
		if err := t.round(ctx); err != nil {
			return err
		}
		select {
		case configs := <-lists:
			t.use(configs)
		case <-time.After(t.pause()):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

// provide sends what the provider returns, each SyncInterval, until ctx ends.
func (t *term) provide(ctx context.Context, lists chan<- []*asynq.PeriodicTaskConfig) {
	for {
		select {
		case <-time.After(t.opts.SyncInterval):
		case <-ctx.Done():
			return
		}
		configs, err := t.opts.PeriodicTaskConfigProvider.GetConfigs()
		if err != nil {
			t.log.errorf("redlockasynq: GetConfigs failed, the tasks stay as they are: %v", err)
			continue
		}
		select {
		case lists <- configs:
		case <-ctx.Done():
			return
		}
	}
}

// use takes the entries of configs in place of those before. An entry that is new has ticks from
// now on.
func (t *term) use(configs []*asynq.PeriodicTaskConfig) {
	entries := make(map[string]*entry, len(configs))
	for _, config := range configs {
		e, err := newEntry(t.lease.Name(), config, t.location, 2*t.window)
		switch {
		case err != nil:
			t.log.errorf("redlockasynq: %v; it is left out", err)
		case entries[e.name] != nil:
			t.log.errorf("redlockasynq: two periodic tasks are equal, or have the TaskID %q; the second is left out", e.name)
		default:
			entries[e.name] = e
		}
	}
	t.entries = entries
}

// begin begins the term. Until the record is read, ticks from now on are tried, and those that fell
// between two leaders, so that the hooks see each tick fail while asynq's Redis is out.
func (t *term) begin() {
	t.began, t.saved = t.now(), time.Now()
	t.settled = t.began.Add(-saveEvery)
}

// read reads from where on ticks are to be enqueued, and records it. It returns an error if the
// record is bad; where asynq's Redis fails, unread is set.
func (t *term) read(ctx context.Context) error {
	recorded, err := t.record.load(ctx)
	if errors.Is(err, errNoTime) {
		return err
	}
	if t.unread = err; err != nil {
		return nil
	}
	from, failed := t.start(recorded), []tick(nil)
	if recorded.IsZero() { // nobody has led before
		from, failed = t.began, t.failed
		if t.settled.After(from) {
			from = t.settled
		}
	}
	if t.unread = t.record.save(ctx, from); t.unread != nil {
		return nil
	}
	t.settled, t.failed, t.saved = from, failed, time.Now()
	t.log.infof("redlockasynq: this process leads %q, from %v on", t.lease.Name(), t.settled.Format(time.RFC3339))
	return nil
}

// start returns from where on ticks are to be enqueued, if those up to recorded are.
func (t *term) start(recorded time.Time) time.Time {
	now := t.now()
	switch oldest := now.Add(-t.window); {
	case recorded.Before(oldest):
		t.log.errorf("redlockasynq: not all ticks of %q after %v were enqueued; those older than the window of %v are missed",
			t.lease.Name(), recorded.Format(time.RFC3339), t.window)
		return oldest
	case recorded.After(now.Add(t.window)):
		t.log.errorf("redlockasynq: the ticks of %q are enqueued up to %v, says the record; "+
			"a clock was or is wrong; they go on from now",
			t.lease.Name(), recorded.Format(time.RFC3339))
		return now
	}
	return recorded
}

// round enqueues the ticks that are due, instant by instant, and writes the record.
func (t *term) round(ctx context.Context) error {
	if t.unread != nil {
		if err := t.read(ctx); err != nil {
			return err
		}
	}
	due := t.collect()
	for rest := due; len(rest) > 0; {
		n := 1
		for n < len(rest) && n < maxTogether && rest[n].due.Equal(rest[0].due) {
			n++
		}
		if err := t.end(ctx); err != nil {
			return err
		}
		t.failed = append(t.failed, t.enqueueAll(ctx, rest[:n])...)
		rest = rest[n:]
	}
	if err := t.end(ctx); err != nil {
		return err
	}
	if len(due) == 0 && t.unread == nil && time.Since(t.saved) < saveEvery {
		return nil
	}
	return t.save(ctx)
}

// end returns why the term is over; nil if it is not. A process that was suspended may run before
// its context is cancelled.
func (t *term) end(ctx context.Context) error {
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case !t.lease.Valid():
		return cmp.Or(t.lease.Err(), redlock.ErrLost)
	}
	return nil
}

// collect returns the ticks that are due, in order, and takes them for settled.
func (t *term) collect() []tick {
	due, now := t.failed, t.now()
	t.failed, t.settled = nil, t.start(t.settled) // the clock may be set, and the machine suspended
	if !now.After(t.settled) {                    // an earlier leader's clock is ahead, or the clock was set
		return due
	}
	for _, e := range t.entries {
		due = e.ticks(due, t.settled, now)
	}
	t.settled = now
	slices.SortFunc(due, func(a, b tick) int {
		return cmp.Or(a.due.Compare(b.due), strings.Compare(a.entry.name, b.entry.name))
	})
	return due
}

// enqueueAll enqueues ticks of one instant, and returns those that failed.
func (t *term) enqueueAll(ctx context.Context, ticks []tick) (failed []tick) {
	done := make([]bool, len(ticks))
	var all sync.WaitGroup
	for i := range ticks {
		all.Go(func() { done[i] = t.enqueue(ctx, ticks[i]) })
	}
	all.Wait()
	for i, k := range ticks {
		if !done[i] {
			k.tries++
			failed = append(failed, k)
		}
	}
	return failed
}

// enqueue enqueues a tick, and reports whether it need not be tried again.
func (t *term) enqueue(ctx context.Context, k tick) (done bool) {
	left := k.due.Add(t.window).Sub(t.now())
	if left < 0 {
		t.log.errorf("redlockasynq: task %q is missed, it was not enqueued within the window of %v", k.id(), t.window)
		return true
	}
	ctx, cancel := context.WithTimeout(ctx, min(left, tryTimeout))
	defer cancel()
	opts := k.opts()
	if t.opts.PreEnqueueFunc != nil {
		t.opts.PreEnqueueFunc(k.entry.task, opts)
	}
	info, err := t.queue.EnqueueContext(ctx, k.entry.task, opts...)
	if errors.Is(err, asynq.ErrTaskIDConflict) { // an earlier try, or an earlier leader, enqueued it
		return true
	}
	t.report(k, info, err)
	if err != nil && k.tries == 0 {
		t.log.warnf("redlockasynq: cannot enqueue task %q: %v", k.id(), err)
	}
	return err == nil || errors.Is(err, asynq.ErrDuplicateTask) // the program's own asynq.Unique
}

// report calls the hooks that see what a try came to.
func (t *term) report(k tick, info *asynq.TaskInfo, err error) {
	if t.opts.PostEnqueueFunc != nil {
		t.opts.PostEnqueueFunc(info, err)
	}
	//lint:ignore SA1019 programs that have this handler keep it
	if handler := t.opts.EnqueueErrorHandler; err != nil && handler != nil {
		handler(k.entry.task, k.opts(), err)
	}
}

// save writes the record. It returns an error if that fails for too long.
func (t *term) save(ctx context.Context) error {
	err := t.unread
	if err == nil {
		err = t.record.save(ctx, t.upTo())
	}
	if err == nil {
		t.saved = time.Now()
		return nil
	}
	if end := t.end(ctx); end != nil {
		return end
	}
	if time.Since(t.saved) > giveUpAfter {
		return t.giveUp(err)
	}
	t.log.warnf("%v; tried again", err)
	return nil
}

// giveUp reports the ticks that were due while asynq's Redis did not answer, and lets another process
// lead, which may reach it. Without a pause: no tick shall fall between two leaders that both fail.
func (t *term) giveUp(err error) error {
	for _, k := range t.collect() {
		if k.tries == 0 {
			t.report(k, nil, err)
		}
	}
	t.log.errorf("%v; another process may lead", err)
	return fmt.Errorf("%w: %w", redlock.ErrResign, err)
}

// upTo returns up to when all ticks are enqueued or given up: to the first failed one.
func (t *term) upTo() time.Time {
	upTo := t.settled
	for _, k := range t.failed {
		if before := k.due.Add(-time.Nanosecond); before.Before(upTo) {
			upTo = before
		}
	}
	return upTo
}

// pause returns for how long nothing is due.
func (t *term) pause() time.Duration {
	now := t.now()
	next := now.Add(maxSleep)
	for _, e := range t.entries {
		if due := e.next(t.settled); !due.IsZero() && due.Before(next) {
			next = due
		}
	}
	return next.Sub(now)
}
