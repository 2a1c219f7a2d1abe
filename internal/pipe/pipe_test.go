package pipe

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// peer is the server's side of a connection: it echoes the first argument of each command,
// in order, while its gate is open.
type peer struct {
	conn net.Conn
	mu   sync.Mutex // protects open
	gate *sync.Cond
	open bool
}

// dial connects a pipe to a peer over a real socket: the tests depend on socket buffers.
func dial(t *testing.T, open bool) (*Pipe, *peer) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	defer l.Close()
	pool := &redis.Pool{Dial: func() (redis.Conn, error) { return redis.Dial("tcp", l.Addr().String()) }}
	conn, err := pool.GetContext(t.Context())
	require.NoError(t, err)
	server, err := l.Accept()
	require.NoError(t, err)
	s := &peer{conn: server, open: open}
	s.gate = sync.NewCond(&s.mu)
	go s.serve()
	p := New(conn)
	t.Cleanup(func() {
		p.Kill(errors.New("the test is over"))
		<-p.Done()
		require.Zero(t, pool.ActiveCount(), "the connection was closed")
		s.setGate(true)
		_ = server.Close()
	})
	return p, s
}

// setGate opens or closes the gate. While it is closed, the peer reads no commands.
func (s *peer) setGate(open bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.open = open
	s.gate.Broadcast()
}

func (s *peer) serve() {
	r := bufio.NewReader(s.conn)
	for {
		s.mu.Lock()
		for !s.open {
			s.gate.Wait()
		}
		s.mu.Unlock()
		args, err := readCommand(r)
		if err != nil {
			return
		}
		answer := fmt.Sprintf("$%d\r\n%s\r\n", len(args[1]), args[1])
		if args[0] == "FAIL" {
			answer = "-ERR " + args[1] + "\r\n"
		}
		if _, err := io.WriteString(s.conn, answer); err != nil {
			return
		}
	}
}

func readCommand(r *bufio.Reader) ([]string, error) {
	line, err := r.ReadString('\n')
	if err != nil {
		return nil, err
	}
	n, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
	args := make([]string, n)
	for i := range args {
		if line, err = r.ReadString('\n'); err != nil {
			return nil, err
		}
		size, _ := strconv.Atoi(strings.TrimSpace(line[1:]))
		buf := make([]byte, size+2)
		if _, err = io.ReadFull(r, buf); err != nil {
			return nil, err
		}
		args[i] = string(buf[:size])
	}
	return args, nil
}

// box receives one answer.
type box chan outcome

type outcome struct {
	reply any
	err   error
}

func (b box) Receive(reply any, err error) { b <- outcome{reply, err} }

func call(text string) (*Call, box) {
	b := make(box, 1)
	return &Call{Command: "ECHO", Args: []any{text}, To: b}, b
}

// send queues a call, and flushes if Queue says so.
func send(t *testing.T, p *Pipe, c *Call) {
	t.Helper()
	flush, _, err := p.Queue(c, 0, nil)
	require.NoError(t, err)
	if flush {
		p.Flush()
	}
}

func TestEachCallerReceivesItsOwnReply(t *testing.T) {
	p, _ := dial(t, true)
	var callers sync.WaitGroup
	for g := range 64 {
		callers.Go(func() {
			for i := range 200 {
				text := fmt.Sprintf("%d/%d", g, i)
				c, answer := call(text)
				flush, load, err := p.Queue(c, 0, nil)
				if err != nil || load < 0 || load > 63 { // at most one of each other caller
					t.Errorf("load %d, error %v", load, err)
				}
				if flush {
					p.Flush()
				}
				if got := <-answer; got.err != nil || string(got.reply.([]byte)) != text {
					t.Errorf("%s got %v", text, got)
				}
			}
		})
	}
	callers.Wait()
}

func TestErrorReplyFailsItsCallOnly(t *testing.T) {
	p, _ := dial(t, true)
	answer := make(box, 1)
	send(t, p, &Call{Command: "FAIL", Args: []any{"no"}, To: answer})
	require.Equal(t, redis.Error("ERR no"), (<-answer).err)
	c, next := call("yes")
	send(t, p, c)
	require.NoError(t, (<-next).err)
	require.NoError(t, p.Err())
}

func TestCallersDoNotBlockIfTheServerStopsReading(t *testing.T) {
	p, s := dial(t, false)
	const calls, size = 300, 64 << 10 // 19 MiB: no socket holds that
	answers := make([]box, calls)
	for i := range calls { // a caller that blocked here would block until the test times out
		c, answer := call(strings.Repeat("x", size))
		answers[i] = answer
		send(t, p, c)
	}
	p.mu.Lock()
	sent := p.sent
	p.mu.Unlock()
	require.LessOrEqual(t, sent, 2, "the rest stays in this process")

	s.setGate(true)
	for _, a := range answers {
		require.NoError(t, (<-a).err)
	}
}

// Each write takes more of the socket's buffer than its bytes: a Unix socket is full after
// about three hundred small writes.
func TestCallersDoNotBlockOnManySmallWrites(t *testing.T) {
	listener, err := net.Listen("unix", filepath.Join(t.TempDir(), "socket"))
	require.NoError(t, err)
	defer listener.Close()
	conn, err := redis.Dial("unix", listener.Addr().String())
	require.NoError(t, err)
	p := New(conn)
	for range 2000 {
		c, _ := call(strings.Repeat("x", 80))
		send(t, p, c) // nobody reads: a caller that blocked would block until the test times out
	}
	p.Kill(errors.New("the end"))
	<-p.Done()
}

func TestKillMarksCallsThatWereNotSent(t *testing.T) {
	p, _ := dial(t, false)
	why := errors.New("no answer for too long")
	answers := make([]box, 10)
	for i := range answers {
		c, answer := call(strings.Repeat("x", maxWireBytes/2))
		answers[i] = answer
		send(t, p, c)
	}
	require.Eventually(t, func() bool {
		p.mu.Lock()
		defer p.mu.Unlock()
		return p.sent == 2
	}, 5*time.Second, time.Millisecond)
	p.Kill(why)
	p.Kill(errors.New("not again"))
	for i, a := range answers {
		got := <-a
		require.ErrorIs(t, got.err, why)
		require.Equal(t, i >= 2, errors.Is(got.err, ErrNotSent), "call %d", i)
	}
	<-p.Done()
	require.ErrorIs(t, p.Err(), why)
	c, _ := call("late")
	_, _, err := p.Queue(c, 0, nil)
	require.ErrorIs(t, err, why)
}

// Close of a pool's connection waits for outstanding replies. Kill cuts redigo's
// connections by receiving with a deadline that has passed.
func TestKillDoesNotWaitForOutstandingReplies(t *testing.T) {
	p, _ := dial(t, false)
	c, answer := call("x")
	send(t, p, c)
	p.Kill(errors.New("enough"))
	<-p.Done() // the reply never comes
	require.Error(t, (<-answer).err)
}

func TestPipeNoticesTheEndOfAnIdleConnection(t *testing.T) {
	p, s := dial(t, true)
	require.NoError(t, s.conn.Close())
	<-p.Done()
	require.Error(t, p.Err())
}

func TestMalformedReplyBreaksThePipe(t *testing.T) {
	for name, garbage := range map[string]string{
		"no RESP":                "HTTP/1.1 400 Bad Request\r\n\r\n",
		"a reply without a call": "+OK\r\n",
		"a long line":            strings.Repeat("x", 1<<16) + "\r\n",
		"a length beyond reason": "$-7\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			p, s := dial(t, false)
			_, err := io.WriteString(s.conn, garbage)
			require.NoError(t, err)
			<-p.Done()
			require.Error(t, p.Err())
		})
	}
}

func TestLimitBoundsSilenceAndBytes(t *testing.T) {
	p, s := dial(t, false)
	limit := &Limit{Silence: 100, Bytes: 5000}
	queue := func(now time.Duration, size int) error {
		c, _ := call(strings.Repeat("x", size))
		flush, _, err := p.Queue(c, now, limit)
		if flush {
			p.Flush()
		}
		return err
	}
	require.NoError(t, queue(0, 2000))
	require.NoError(t, queue(10, 1000))
	require.NoError(t, queue(100, 1))
	require.ErrorContains(t, queue(101, 1), "no answer for")
	require.Equal(t, 3, p.Unanswered())
	_, err := io.WriteString(s.conn, "+OK\r\n")
	require.NoError(t, err)
	require.Eventually(t, func() bool { return p.Answered() == 1 }, 10*time.Second, time.Millisecond)
	require.NoError(t, queue(110, 4000), "the oldest call is younger")
	require.ErrorContains(t, queue(110, 1), "KiB unanswered")
	require.ErrorContains(t, queue(111, 1), "no answer for")
	require.Equal(t, time.Duration(7), p.Silence(17))
}

func TestKillWhileCallersWriteAnswersEachCall(t *testing.T) {
	for range 50 {
		p, _ := dial(t, true)
		var callers sync.WaitGroup
		for range 8 {
			callers.Go(func() {
				for {
					c, answer := call("x")
					flush, _, err := p.Queue(c, 0, nil)
					if err != nil {
						return
					}
					if flush {
						p.Flush()
					}
					<-answer // exactly one answer for each call that was queued
				}
			})
		}
		time.Sleep(time.Millisecond)
		p.Kill(context.Canceled)
		callers.Wait()
		<-p.Done()
	}
}

func TestFifoKeepsOrderAsItGrows(t *testing.T) {
	var f fifo
	next, want := int32(0), int32(0)
	push := func() {
		f.push(&Call{size: next})
		next++
	}
	for round := range 200 {
		for range round % 7 {
			push()
		}
		for range min(round%5, f.n) {
			require.Equal(t, want, f.at(0).size)
			require.Equal(t, want, f.pop().size)
			want++
		}
	}
	for i, c := range f.drain() {
		require.Equal(t, want+int32(i), c.size)
	}
	require.Zero(t, f.n)
}

// redigo's reader panics at the length. The process goes on, and every call gets an error.
func TestPipeEndsAtAReplyAtWhichTheReaderPanics(t *testing.T) {
	replies := []string{fmt.Sprintf("*%d\r\n", math.MaxInt)}
	if strconv.IntSize > 32 { // else it makes room for the text
		replies = append(replies, fmt.Sprintf("$%d\r\n", math.MaxInt))
	}
	for _, reply := range replies {
		near, far := net.Pipe()
		p := New(redis.NewConn(near, 0, 0))
		var boxes []box
		for range 3 {
			c, b := call("x")
			flush, _, err := p.Queue(c, 0, nil)
			require.NoError(t, err)
			require.Equal(t, len(boxes) == 0, flush)
			boxes = append(boxes, b)
		}
		go func() { _, _ = io.Copy(io.Discard, far) }()
		p.Flush() // ahead of the reply, so that no write fails when the connection ends
		_, err := io.WriteString(far, reply)
		require.NoError(t, err)
		for _, b := range boxes {
			require.ErrorContains(t, (<-b).err, "the server's reply is wrong: *redis.conn panics")
		}
		<-p.Done()
		require.ErrorContains(t, p.Err(), "panics")
		require.NoError(t, far.Close())
	}
}

// A panic of a receiver is a bug of this library, and no node's.
func TestPipeDoesNotHideAPanicOfAReceiver(t *testing.T) {
	require.PanicsWithValue(t, "bug", func() {
		near, far := net.Pipe()
		defer far.Close()
		p := &Pipe{conn: redis.NewConn(near, 0, 0), done: make(chan struct{}), users: 1}
		_, _, err := p.Queue(&Call{Command: "PING", To: buggy{}}, 0, nil)
		require.NoError(t, err)
		go func() { _, _ = io.WriteString(far, "+PONG\r\n") }()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		p.Flush()
		p.read()
	})
}

type buggy struct{}

func (buggy) Receive(any, error) { panic("bug") }

// echoes is a series of commands.
type echoes struct {
	box
	texts []string
}

func (e echoes) Send(to Sender) error {
	for _, text := range e.texts {
		if err := to.Send("ECHO", text); err != nil {
			return err
		}
	}
	return nil
}

func (e echoes) Size() int { return 30 * len(e.texts) }

func series(texts ...string) (*Call, box) {
	b := make(box, len(texts)+1)
	return &Call{To: echoes{b, texts}, Series: int16(len(texts))}, b
}

func TestSeriesStaysTogetherAndItsCommandsAreTheLoad(t *testing.T) {
	p, _ := dial(t, true)
	pair, both := series("1", "2")
	third, three := call("3")
	flush, load, err := p.Queue(pair, 0, nil)
	require.NoError(t, err)
	require.True(t, flush)
	require.Zero(t, load)
	_, load, err = p.Queue(third, 0, nil)
	require.NoError(t, err)
	require.Equal(t, 2, load)
	require.Equal(t, 3, p.Unanswered())
	p.Flush()
	for i, answer := range []box{both, both, three} {
		require.Equal(t, strconv.Itoa(i+1), string((<-answer).reply.([]byte)))
	}
	require.Eventually(t, func() bool { return p.Unanswered() == 0 }, 10*time.Second, time.Millisecond)
	require.Zero(t, p.bytes)
}

// Each command gets one answer, also if the connection breaks between two of them.
func TestSeriesThatIsCutOffGetsAnErrorForEachAnswerThatHasNotCome(t *testing.T) {
	for before := range 3 {
		for name, cut := range map[string]func(*Pipe, *peer, error){
			"by the server": func(_ *Pipe, s *peer, _ error) { _ = s.conn.Close() },
			"from here":     func(p *Pipe, _ *peer, why error) { p.Kill(why) },
		} {
			p, s := dial(t, false)
			first, answers := series("1", "2", "3")
			second, others := series("4", "5")
			send(t, p, first)
			send(t, p, second)
			for i := range before {
				_, err := io.WriteString(s.conn, ":"+strconv.Itoa(i)+"\r\n")
				require.NoError(t, err)
				require.Equal(t, outcome{int64(i), nil}, <-answers, name)
			}
			why := errors.New("killed")
			cut(p, s, why)
			<-p.Done()
			require.Len(t, answers, 3-before, name)
			require.Len(t, others, 2, name)
			for range 3 - before {
				require.Equal(t, outcome{nil, p.Err()}, <-answers, name)
			}
			require.Zero(t, p.Unanswered())
		}
	}
}

// All commands of a series are sent, or none.
func TestSeriesBehindAFullWireIsNotSent(t *testing.T) {
	p, _ := dial(t, false)
	long, _ := call(string(make([]byte, maxWireBytes)))
	send(t, p, long)
	behind, answers := series("1", "2")
	send(t, p, behind)
	p.Kill(errors.New("killed"))
	<-p.Done()
	for range 2 {
		require.ErrorIs(t, (<-answers).err, ErrNotSent)
	}
	require.Empty(t, answers)
}
