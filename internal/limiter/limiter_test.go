package limiter_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/limiter"
)

// observer is the callers, and counts those that waited for their turn.
type observer struct {
	urgent  atomic.Bool
	changed chan struct{}

	mu     sync.Mutex
	waited int
	ahead  int // the most
}

func (o *observer) TurnAwaited(_ context.Context, ahead int) func(error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waited++
	o.ahead = max(o.ahead, ahead)
	return func(error) {}
}

func (o *observer) IsUrgent() bool           { return o.urgent.Load() }
func (o *observer) Changed() <-chan struct{} { return o.changed }

// server is a model of the nodes: it executes one attempt after the other, each of which takes
// some time, and its answers are on their way for some time.
type server struct {
	service, trip, timeout time.Duration
	patience               time.Duration // after it a caller gives its attempt up; 0: it does not

	began time.Time

	mu   sync.Mutex    // protects what follows
	free time.Duration // when it has executed what was sent
	made int           // attempts
	vain int           // of them, those whose answer came too late
}

func (s *server) now() time.Duration { return time.Since(s.began) }

// run makes an attempt of a caller, and reports whether its answer came in time.
func (s *server) run(a limiter.Attempt) bool {
	r := s.send()
	time.Sleep(r.Took)
	if r.Answered == 0 && s.patience > 0 {
		a.LeaveLater(r)
	} else {
		a.Leave(r)
	}
	return r.Answered > 0
}

// send sends an attempt, and returns its result. One that comes too late is rolled back, which
// takes as long again.
func (s *server) send() limiter.Result {
	s.mu.Lock()
	defer s.mu.Unlock()
	start := s.now()
	s.made++
	s.free = max(s.free, start) + s.service
	took := s.free + s.trip - start
	most := s.timeout
	if s.patience > 0 {
		most = s.patience
	}
	if took <= most {
		return limiter.Result{Start: start, Timeout: s.timeout, Answered: took, Took: took}
	}
	s.vain++
	s.free += s.service
	return limiter.Result{Start: start, Timeout: s.timeout, Unanswered: true, Took: most}
}

// A burst of calls, each of which tries until its answer comes in time. Without a limit most of
// them never succeed.
func TestBurstIsServedWithFewAttemptsInVain(t *testing.T) {
	const callers = 10_000
	for _, s := range []*server{
		{service: 5 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 500 * time.Millisecond},
		{service: 70 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 500 * time.Millisecond},
		{service: 70 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 50 * time.Millisecond},
		{service: 70 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 5 * time.Millisecond},
		{service: 700 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 50 * time.Millisecond},
		{service: 5 * time.Millisecond, trip: 100 * time.Microsecond, timeout: 50 * time.Millisecond},
		{service: 70 * time.Microsecond, trip: 30 * time.Millisecond, timeout: 500 * time.Millisecond},
		{service: 20 * time.Microsecond, trip: 200 * time.Millisecond, timeout: 500 * time.Millisecond},
		{service: 20 * time.Microsecond, trip: 45 * time.Millisecond, timeout: 50 * time.Millisecond},
	} {
		t.Run(fmt.Sprintf("%v-%v-%v", s.service, s.trip, s.timeout), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s.began = time.Now()
				l := limiter.New(s.now, life.New(), limiter.NeverUnfit)
				var o observer
				serve(t, l, s, &o, callers)
				least := callers*s.service + s.trip
				t.Logf("%d attempts, %d in vain; %v, where %v is the least; %d waited", s.made, s.vain, s.now(), least, o.waited)
				assert.LessOrEqual(t, s.vain, callers/20, "attempts in vain")
				assert.LessOrEqual(t, s.now(), 5*least)
				assert.Greater(t, o.waited, callers/2)
				assert.Zero(t, l.Waiting())
			})
		})
	}
}

// serve has so many callers try until they succeed.
func serve(t *testing.T, l *limiter.Limiter, s *server, o *observer, callers int) {
	var all sync.WaitGroup
	for range callers {
		all.Go(func() {
			for {
				a, err := l.Enter(t.Context(), 0, 0, o)
				if !assert.NoError(t, err) || s.run(a) {
					return
				}
			}
		})
	}
	all.Wait()
}

// Callers that give up long before the node timeout must not keep each other from being served.
func TestBurstOfImpatientCallersIsServed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 10_000
		s := &server{service: 70 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 500 * time.Millisecond,
			patience: 20 * time.Millisecond, began: time.Now()}
		l := limiter.New(s.now, life.New(), limiter.NeverUnfit)
		serve(t, l, s, new(observer), callers)
		t.Logf("%d attempts, %d in vain; %v", s.made, s.vain, s.now())
		assert.LessOrEqual(t, s.vain, callers/5)
		assert.LessOrEqual(t, s.now(), 2*callers*s.service)
	})
}

// The nodes become five times as slow between two bursts: the limit must fall before all is late.
func TestLimitFollowsTheNodes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 5000
		s := &server{service: 20 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 50 * time.Millisecond, began: time.Now()}
		l := limiter.New(s.now, life.New(), limiter.NeverUnfit)
		serve(t, l, s, new(observer), callers)
		s.service *= 5
		serve(t, l, s, new(observer), callers)
		t.Logf("%d attempts, %d in vain", s.made, s.vain)
		assert.LessOrEqual(t, s.vain, callers/3)
	})
}

// The nodes, or the client's machine, become forty times as slow at once, while many attempts are under way. Those are
// lost; the client then begins anew with few.
func TestCollapseOfTheNodesCostsLittleMoreThanWhatIsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers = 5000
		s := &server{service: 20 * time.Microsecond, trip: 100 * time.Microsecond, timeout: 500 * time.Millisecond, began: time.Now()}
		l := limiter.New(s.now, life.New(), limiter.NeverUnfit)
		serve(t, l, s, new(observer), callers)
		s.service *= 40
		before := s.vain
		serve(t, l, s, new(observer), callers)
		t.Logf("%d attempts, %d in vain", s.made, s.vain-before)
		assert.LessOrEqual(t, s.vain-before, 4096*5/4, "so many were under way, and few more")
	})
}

// The shortest time that the nodes take is known before a crowd comes.
func TestTheFirstAttemptIsMeasured(t *testing.T) {
	l := limiter.New(func() time.Duration { return 0 }, life.New(), limiter.NeverUnfit)
	for _, c := range []struct {
		timed    bool
		answered time.Duration
	}{{true, 0}, {true, time.Millisecond}, {false, time.Millisecond}} {
		a, begun := l.TryEnter(false)
		require.True(t, begun)
		require.Equal(t, c.timed, a.Timed)
		a.Leave(limiter.Result{Timeout: time.Second, Unanswered: c.answered == 0, Answered: c.answered, Took: c.answered})
	}
}

// A caller that waits for a bounded time finds out by an attempt of its own what ails the nodes, at once: behind those
// that rest it would only learn that its turn did not come.
func TestOutageDoesNotKeepCallersWhoseWaitHasABound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const callers, timeout = 1000, 800 * time.Millisecond
		o := newOutage()
		var all sync.WaitGroup
		for range 100 {
			all.Go(func() { assert.NoError(t, o.call(t.Context())) })
		}
		time.Sleep(time.Millisecond)
		synctest.Wait()
		assert.Positive(t, o.limiter.Waiting())
		began := o.now()
		for i := range callers {
			all.Go(func() {
				a, err := o.limiter.Enter(t.Context(), time.Duration(i+1), timeout, new(observer))
				if assert.NoError(t, err) {
					a.Leave(limiter.Result{Start: began, Timeout: timeout, Unanswered: true})
				}
				assert.Equal(t, began, o.now())
			})
		}
		synctest.Wait()
		o.recovered.Store(true)
		all.Wait()
	})
}

// To a lock whose timeout is shorter than the way there and back, nodes seem not to answer that do.
func TestOutageOfATooShortTimeoutKeepsNobody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := newOutage()
		enter := func() (held []limiter.Attempt) {
			for range 20 {
				a, begun := o.limiter.TryEnter(false)
				if !begun {
					break
				}
				held = append(held, a)
			}
			return held
		}
		leave := func(all []limiter.Attempt, r limiter.Result) {
			for _, a := range all {
				r.Start = o.now()
				a.Leave(r)
			}
		}
		const trip = 30 * time.Millisecond
		leave(enter(), limiter.Result{Timeout: 500 * time.Millisecond, Answered: trip, Took: trip})
		leave(enter(), limiter.Result{Timeout: 5 * time.Millisecond, Unanswered: true, Took: 5 * time.Millisecond})
		held := enter()
		require.Len(t, held, 20)
		leave(held, limiter.Result{Timeout: 50 * time.Millisecond, Unanswered: true})
		require.Len(t, enter(), 16)
	})
}

// Locks whose node timeout is shorter than the way to the nodes and back get no answer in time, however little the nodes
// have to do. The calls of the other locks must not wait for that.
func TestTooShortTimeoutDoesNotSlowOtherLocksDown(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const trip, seconds = 100 * time.Millisecond, 10
		began := time.Now()
		s := &server{trip: trip, timeout: 500 * time.Millisecond, began: began}
		short := &server{trip: trip, timeout: trip / 2, began: began}
		l := limiter.New(s.now, life.New(), limiter.NeverUnfit)
		var callers sync.WaitGroup
		call := func(s *server, pause time.Duration) {
			callers.Go(func() {
				for s.now() < seconds*time.Second {
					a, err := l.Enter(t.Context(), s.now(), 0, new(observer))
					assert.NoError(t, err)
					s.run(a)
					time.Sleep(pause)
				}
			})
		}
		for range 4 {
			call(s, 0)
		}
		time.Sleep(time.Second)
		for range 16 {
			call(short, 20*time.Millisecond)
		}
		callers.Wait()
		t.Logf("%d attempts, and %d with a short timeout, %d in vain", s.made, short.made, short.vain)
		assert.Equal(t, short.made, short.vain)
		assert.GreaterOrEqual(t, s.made, 4*seconds*int(time.Second/trip), "they never wait for their turn")
	})
}

// fill begins attempts until a further one would wait, and returns a function that ends one.
func fill(t *testing.T, l *limiter.Limiter) (leave func()) {
	t.Helper()
	var running []limiter.Attempt
	for {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		a, err := l.Enter(ctx, 0, 0, new(observer))
		if err != nil {
			break
		}
		running = append(running, a)
	}
	return func() {
		a := running[0]
		running = running[1:]
		a.Leave(limiter.Result{Timeout: time.Second, Took: time.Microsecond})
	}
}

func TestCallersComeInTheOrderInWhichTheyAsked(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := limiter.New(func() time.Duration { return time.Since(began) }, life.New(), limiter.NeverUnfit)
		leave := fill(t, l)
		var order []int
		var o observer
		var all sync.WaitGroup
		for _, asked := range []int{3, 1, 2, 1} {
			all.Go(func() {
				a, err := l.Enter(t.Context(), time.Duration(asked), 0, &o)
				assert.NoError(t, err)
				order = append(order, asked)
				a.Leave(limiter.Result{})
			})
			synctest.Wait()
		}
		assert.Equal(t, 4, l.Waiting())
		assert.Equal(t, 3, o.ahead)
		leave()
		all.Wait()
		assert.Equal(t, []int{1, 1, 2, 3}, order)
		assert.Zero(t, l.Waiting())
	})
}

// Urgent callers wait for none of the others, which take no room from them, nor they from the others.
func TestUrgentCallersHaveALimitOfTheirOwn(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		l := limiter.New(func() time.Duration { return time.Since(began) }, life.New(), limiter.NeverUnfit)
		leave := fill(t, l)
		var order []string
		var begun []limiter.Attempt
		enter := func(name string, asked time.Duration, o *observer) {
			go func() {
				a, err := l.Enter(t.Context(), asked, 0, o)
				assert.NoError(t, err)
				order, begun = append(order, name), append(begun, a)
			}()
			synctest.Wait()
		}
		woken := &observer{changed: make(chan struct{}, 1)}
		enter("patient", 1, new(observer))
		enter("woken", 2, woken)
		assert.Empty(t, order)
		woken.changed <- struct{}{} // nothing has changed
		synctest.Wait()
		assert.Empty(t, order)
		woken.urgent.Store(true)
		woken.changed <- struct{}{}
		synctest.Wait()
		assert.Equal(t, []string{"woken"}, order)

		urgent := new(observer)
		urgent.urgent.Store(true)
		for range 63 {
			enter("urgent", 3, urgent)
		}
		assert.Len(t, order, 64)
		enter("later", 5, urgent)
		enter("earlier", 4, urgent)
		assert.Len(t, order, 64, "as many as the limit allows are under way")
		assert.Equal(t, 3, l.Waiting())
		leave()
		synctest.Wait()
		assert.Equal(t, "patient", order[64])
		for _, a := range begun[:2] {
			a.Leave(limiter.Result{})
			synctest.Wait()
		}
		assert.Equal(t, []string{"earlier", "later"}, order[65:])
	})
}

// Of two callers that come at one instant either may be the first. Both begin, or wait, in either order: else a
// simulation could not be repeated.
func TestUrgentAndOtherCallersBeginInEitherOrder(t *testing.T) {
	for _, urgentFirst := range []bool{false, true} {
		for busy := range 130 {
			now := time.Minute
			l := limiter.New(func() time.Duration { return now }, life.New(), limiter.NeverUnfit)
			for i := range busy {
				l.TryEnter(i%2 == 0)
			}
			_, ordinary := l.TryEnter(urgentFirst)
			_, urgent := l.TryEnter(!urgentFirst)
			if urgentFirst {
				ordinary, urgent = urgent, ordinary
			}
			assert.Equal(t, busy < 128, ordinary, "%d under way", busy)
			assert.Equal(t, busy < 127, urgent, "%d under way", busy)
		}
	}
}

func TestWaitForATurnEnds(t *testing.T) {
	cause := errors.New("gave up")
	for name, c := range map[string]struct {
		patience time.Duration
		end      func(cancel context.CancelCauseFunc, l *life.Life)
		want     error
	}{
		"ctx":      {end: func(cancel context.CancelCauseFunc, _ *life.Life) { cancel(cause) }, want: cause},
		"Close":    {end: func(_ context.CancelCauseFunc, l *life.Life) { l.Close() }, want: life.ErrClosed},
		"patience": {patience: time.Second, end: func(context.CancelCauseFunc, *life.Life) { time.Sleep(time.Second) }, want: limiter.ErrTooLate},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				began, alive := time.Now(), life.New()
				l := limiter.New(func() time.Duration { return time.Since(began) }, alive, limiter.NeverUnfit)
				leave := fill(t, l)
				ctx, cancel := context.WithCancelCause(t.Context())
				defer cancel(nil)
				result := make(chan error, 1)
				go func() {
					_, err := l.Enter(ctx, 0, c.patience, new(observer))
					result <- err
				}()
				synctest.Wait()
				c.end(cancel, alive)
				assert.ErrorIs(t, <-result, c.want)
				assert.Zero(t, l.Waiting())
				leave() // nobody is woken, and nothing is counted twice
			})
		})
	}
}

// What a caller that gave up has sent is still at the nodes.
func TestAttemptOfACallerThatGaveUpCountsForAWhile(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &server{service: time.Millisecond, trip: time.Millisecond, timeout: 500 * time.Millisecond, began: time.Now()}
		l := limiter.New(s.now, life.New(), limiter.NeverUnfit)
		for range 100 { // it learns how long the nodes take
			serve(t, l, s, new(observer), 1)
		}
		a, err := l.Enter(t.Context(), 0, 0, new(observer))
		assert.NoError(t, err)
		fill(t, l)
		began := time.Now()
		a.LeaveLater(limiter.Result{})
		_, err = l.Enter(t.Context(), 0, 0, new(observer))
		assert.NoError(t, err)
		assert.Equal(t, 2*(s.service+s.trip), time.Since(began))
	})
}

func TestCallsThatAskAtOneInstantHaveAnOrder(t *testing.T) {
	now := time.Minute
	l := limiter.New(func() time.Duration { return now }, life.New(), limiter.NeverUnfit)
	const calls = 1000
	asked := make([]time.Duration, calls)
	var all sync.WaitGroup
	for i := range asked {
		all.Go(func() { asked[i] = l.Asked() })
	}
	all.Wait()
	slices.Sort(asked)
	assert.Len(t, slices.Compact(asked), calls)
	assert.Equal(t, now, asked[0])
	now += time.Second
	assert.Equal(t, now, l.Asked(), "those at one instant delay no later ones")
}
