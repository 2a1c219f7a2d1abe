package docs_test

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The declarations from here to serve are those of docs/shutdown.md: TestTheProgramsOfThePagesAreThoseThatAreTested
// compares.

// What the shutdown allows each step.
const (
	leaderStops  = 5 * time.Second  // the leader's function
	requestsEnd  = 20 * time.Second // the longest request: its wait for a lock, and its work
	requestsStop = 3 * time.Second  // a request whose context was ended
)

type task func(ctx context.Context, lease *redlock.Lease) error

// serve works until ctx ends, and then gives back what the process holds. It closes the client and the listener.
func serve(ctx context.Context, client *redlock.Client, listener net.Listener, handler http.Handler, lead task) error {
	defer client.Close() // 4. it releases what is left

	ctx, resign := context.WithCancel(ctx)
	defer resign()
	led, leadErr := make(chan struct{}), error(nil)
	go func() {
		defer close(led)
		leadErr = client.Mutex("scheduler").Lead(ctx, lead)
	}()

	requests, interrupt := context.WithCancel(context.Background()) // not of ctx: requests go on when ctx ends
	defer interrupt()
	server := &http.Server{Handler: handler, BaseContext: func(net.Listener) context.Context { return requests }}
	served := make(chan error, 1)
	go func() { served <- server.Serve(listener) }()

	var err error
	select {
	case <-ctx.Done(): // a signal
	case <-led: // its work is done, or a setting is bad: then the server ends, too
		if ctx.Err() == nil {
			err = leadErr
		}
	case err = <-served: // the listener broke
	}

	resign() // 1. the leader: another process leads when its function has returned
	select {
	case <-led:
	case <-time.After(leaderStops):
	}
	if shutDownWithin(server, requestsEnd) != nil { // 2. requests keep their locks until they end
		interrupt() // 3. those that take too long: their r.Context() ends
		if shutDownWithin(server, requestsStop) != nil {
			err = errors.Join(err, errors.New("a request did not stop"), server.Close())
		}
	}
	return err
}

func shutDownWithin(server *http.Server, d time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), d)
	defer cancel()
	return server.Shutdown(ctx)
}

// pipeListener is a listener in virtual time: its connections are pipes.
type pipeListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newPipeListener() *pipeListener {
	return &pipeListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.conns:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.TCPAddr{} }

// get sends a request over a connection of its own, and returns the status and the text.
func (l *pipeListener) get(t *testing.T) (status int, text string, err error) {
	dial := func(context.Context, string, string) (net.Conn, error) {
		near, far := net.Pipe()
		select {
		case l.conns <- far:
			return near, nil
		case <-l.closed:
			return nil, net.ErrClosed
		}
	}
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://server/", http.NoBody)
	require.NoError(t, err)
	answer, err := (&http.Transport{DialContext: dial, DisableKeepAlives: true}).RoundTrip(r)
	if err != nil {
		return 0, "", err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	return answer.StatusCode, strings.TrimSpace(string(body)), err
}

// requestUnderLock is a handler whose work ends when finish is closed, or with its context if obeys is set.
func requestUnderLock(client *redlock.Client, began chan<- struct{}, finish <-chan struct{}, obeys bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := client.Mutex("invoice-42").Do(r.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			close(began)
			stop := ctx.Done()
			if !obeys {
				stop = nil
			}
			select {
			case <-finish:
				return nil
			case <-stop:
				return ctx.Err()
			}
		})
		if err != nil {
			http.Error(w, "not charged", http.StatusInternalServerError)
		}
	})
}

// until is a leader's function that works until its context ends.
func until(ctx context.Context, _ *redlock.Lease) error {
	<-ctx.Done()
	return ctx.Err()
}

// shutdownCase is a server of the page with a request under way, and a rival that waits to lead.
type shutdownCase struct {
	net      *testnet.Net
	rival    *redlock.Client
	listener *pipeListener
	stop     context.CancelFunc // the signal
	finish   chan struct{}      // closed: the request's work ends
	served   chan error         // what serve returned
	answer   chan int           // the request's status; 0: the connection broke
	leads    chan time.Time     // when the rival leads
}

func startServer(t *testing.T, net *testnet.Net, lead task, obeys bool) *shutdownCase {
	c := &shutdownCase{net: net, rival: net.Client(), listener: newPipeListener(), finish: make(chan struct{}), served: make(chan error, 1),
		answer: make(chan int, 1), leads: make(chan time.Time, 1)}
	client, began := net.Client(), make(chan struct{})
	ctx, stop := context.WithCancel(t.Context())
	c.stop = stop
	go func() {
		c.served <- serve(ctx, client, c.listener, requestUnderLock(client, began, c.finish, obeys), lead)
	}()
	synctest.Wait() // it leads
	go func() {
		_ = c.rival.Mutex("scheduler").Do(t.Context(), func(context.Context, *redlock.Lease) error {
			c.leads <- time.Now()
			return nil
		})
	}()
	go func() {
		status, _, _ := c.listener.get(t)
		c.answer <- status
	}()
	<-began
	time.Sleep(time.Minute) // leases are renewed
	return c
}

// requireHeld checks whether the request's lock is held.
func (c *shutdownCase) requireHeld(t *testing.T, held bool) {
	t.Helper()
	s, err := c.rival.Inspect(t.Context(), "invoice-42")
	require.NoError(t, err)
	require.Equal(t, held, s.Holder != "")
}

func TestAShutdownGivesBackTheLeadershipThenTheRequestsLocks(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := startServer(t, net, until, true)
		require.Empty(t, c.leads)
		signal := time.Now()
		c.stop()
		require.Less(t, (<-c.leads).Sub(signal), time.Second, "the leader goes first")

		time.Sleep(10 * time.Second)
		c.requireHeld(t, true)
		require.Empty(t, c.served, "it awaits the request")
		_, _, err := c.listener.get(t)
		require.Error(t, err, "new requests are refused")

		close(c.finish)
		require.Equal(t, http.StatusOK, <-c.answer)
		require.NoError(t, <-c.served)
		net.RequireNoKeys()
	})
}

func TestAShutdownInterruptsARequestThatTakesTooLong(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := startServer(t, net, until, true)
		signal := time.Now()
		c.stop()
		time.Sleep(requestsEnd - time.Second)
		c.requireHeld(t, true)
		require.Equal(t, http.StatusInternalServerError, <-c.answer, "it was still answered")
		require.NoError(t, <-c.served)
		require.InDelta(t, requestsEnd, time.Since(signal), float64(time.Second))
		net.RequireNoKeys()
	})
}

// What does not stop keeps its lock; the process ends all the same, and the lock ends a ttl after the last renewal.
func TestAShutdownIsBoundedWhateverDoesNotStop(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		hang := make(chan struct{})
		c := startServer(t, net, func(context.Context, *redlock.Lease) error { <-hang; return nil }, false)
		signal := time.Now()
		c.stop()
		require.ErrorContains(t, <-c.served, "a request did not stop")
		require.Zero(t, <-c.answer)
		require.LessOrEqual(t, time.Since(signal), leaderStops+requestsEnd+requestsStop+closeLimit)
		c.requireHeld(t, true)
		require.Empty(t, c.leads)

		require.Less(t, (<-c.leads).Sub(signal), leaderStops+requestsEnd+requestsStop+closeLimit+10*time.Second+3*time.Second)
		time.Sleep(10 * time.Second)
		c.requireHeld(t, false)
		close(hang)
		close(c.finish)
	})
}

// closeLimit is how long the page allows Close.
const closeLimit = 3 * time.Second

const shutdownPage = "docs/shutdown.md"

// The page's tables have the times of its program, and the grace period is longer than all steps together.
func TestTheTablesOfTheShutdownHaveTheTimesOfItsProgram(t *testing.T) {
	page, number := read(t, shutdownPage), func(cell string) time.Duration { return duration(t, strings.TrimSuffix(cell, " s")+"s") }
	steps := regexp.MustCompile(`(?m)^\| \d\. .* \| (\d+ s) \|$`).FindAllStringSubmatch(page, -1)
	cells := regexp.MustCompile(`(?m)^\| (\d+ s) \| (\d+ s) \| (\d+ s) \| (\d+ s) \| (\d+ s) \| (\d+ s) \| (\d+) \|$`).FindStringSubmatch(page)
	require.Len(t, steps, 4)
	require.NotNil(t, cells)
	sum := number(cells[1]) // the preStop sleep
	for i, allowed := range []time.Duration{leaderStops, requestsEnd, requestsStop, closeLimit} {
		require.Equal(t, allowed, number(steps[i][1]), steps[i][0])
		require.Equal(t, allowed, number(cells[i+2]), steps[i][0])
		sum += allowed
	}
	require.Equal(t, sum, number(cells[6]))
	require.Greater(t, number(cells[7]), sum)
}

func TestCloseDoesWhatThePageOfShutdownSays(t *testing.T) {
	for name, c := range map[string]struct {
		fail func(net *testnet.Net)
		held bool // keys stay, since no master can be told
	}{
		"all masters answer":      {func(*testnet.Net) {}, false},
		"a master is frozen":      {func(net *testnet.Net) { net.Nodes[0].Freeze() }, false},
		"all masters are frozen":  {func(net *testnet.Net) { net.Nodes[0].Freeze(); net.Nodes[1].Freeze(); net.Nodes[2].Freeze() }, true},
		"a majority is down":      {func(net *testnet.Net) { net.Nodes[0].Down(); net.Nodes[1].Down() }, true},
		"the masters are far off": {func(net *testnet.Net) { net.Delay(200 * time.Millisecond) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				closeBusyClient(t, net, c.fail, c.held)
			})
		})
	}
}

// closeBusyClient closes a client with a lease, a waiter, a TryLock and a Do, while something is wrong with the masters.
func closeBusyClient(t *testing.T, net *testnet.Net, fail func(*testnet.Net), held bool) {
	client, other := net.Client(), net.Client()
	lease, err := client.Mutex("lease").Lock(t.Context())
	require.NoError(t, err)
	_, err = other.Mutex("wanted").Lock(t.Context())
	require.NoError(t, err)
	waited, tried, doing, finish := make(chan error, 1), make(chan error, 1), make(chan struct{}), make(chan struct{})
	go func() { _, err := client.Mutex("wanted").Lock(t.Context()); waited <- err }()
	done := make(chan error, 1)
	go func() {
		done <- client.Mutex("do").Do(t.Context(), func(ctx context.Context, lease *redlock.Lease) error {
			<-doing
			<-ctx.Done()
			require.ErrorIs(t, context.Cause(ctx), redlock.ErrClosed)
			<-finish
			return nil
		})
	}()
	time.Sleep(time.Second)
	close(doing)
	fail(net)
	go func() { _, err := client.Mutex("free").TryLock(t.Context()); tried <- err }()
	time.Sleep(time.Millisecond)

	took := testnet.Elapsed(func() { require.NoError(t, client.Close()) })
	require.LessOrEqual(t, took, closeLimit)
	require.ErrorIs(t, <-waited, redlock.ErrClosed)
	require.ErrorIs(t, lease.Err(), redlock.ErrClosed)
	<-tried
	require.Empty(t, done, "Close does not await a Do")
	if !held {
		for _, name := range []string{"lease", "free"} {
			s, err := other.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Empty(t, s.Holder, name)
		}
		s, err := other.Inspect(t.Context(), "do")
		require.NoError(t, err)
		require.NotEmpty(t, s.Holder, "the Do keeps its lock until its function returns")
	}
	close(finish)
	require.NoError(t, <-done)
}
