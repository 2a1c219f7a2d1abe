package pipe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// doneCall is a call of so many commands. It records what Done says at its last Receive.
type doneCall struct {
	Call
	left int
	said chan bool
}

func newDoneCall(commands int) *doneCall {
	d := &doneCall{left: commands, said: make(chan bool, 1)}
	d.Call = Call{Command: "PING", To: d, Done: true} // left over from an earlier use
	if commands > 1 {
		d.Call.Series = int16(commands)
	}
	return d
}

func (d *doneCall) Receive(any, error) {
	if d.left--; d.left == 0 {
		d.said <- d.Done
	}
}

func (d *doneCall) Send(to Sender) error {
	for range d.Series {
		if err := to.Send("PING"); err != nil {
			return err
		}
	}
	return nil
}

func (d *doneCall) Size() int { return 20 * int(d.Series) }

// hasty is a connection whose server answers each command when it is flushed; or, if it is early, as soon as Send gets
// it: then Send returns when the answer was delivered.
type hasty struct {
	early   bool
	mute    bool // no answer comes, until the connection is cut
	sent    int  // commands that were not answered yet
	given   int  // answers
	asks    int  // what Send took from asked
	answers chan int64
	asked   chan struct{} // gets one when the reader asks for the next answer
	cut     chan struct{}
}

func newHasty() *hasty {
	return &hasty{answers: make(chan int64, 64), asked: make(chan struct{}, 64), cut: make(chan struct{})}
}

func (h *hasty) Send(string, ...any) error {
	if !h.early {
		h.sent++
		return nil
	}
	h.answer()
	for ; h.asks <= h.given; h.asks++ { // the reader asks for the one after the last
		<-h.asked
	}
	return nil
}

func (h *hasty) Flush() error {
	for ; h.sent > 0 && !h.mute; h.sent-- {
		h.answer()
	}
	return nil
}

func (h *hasty) answer() {
	h.given++
	h.answers <- 1
}

func (h *hasty) receive() (any, error) {
	h.asked <- struct{}{}
	select {
	case n := <-h.answers:
		return n, nil
	case <-h.cut:
	}
	select {
	case n := <-h.answers: // it was in the socket already
		return n, nil
	default:
		return nil, errors.New("cut")
	}
}

// ReceiveContext cuts the connection. What the server has answered can be read still.
func (h *hasty) ReceiveContext(context.Context) (any, error) {
	h.mute = false
	_ = h.Flush()
	close(h.cut)
	return nil, nil
}

func (h *hasty) Receive() (any, error)                                    { return h.receive() }
func (h *hasty) ReceiveWithTimeout(time.Duration) (any, error)            { return h.receive() }
func (h *hasty) Do(string, ...any) (any, error)                           { return nil, nil }
func (h *hasty) DoContext(context.Context, string, ...any) (any, error)   { return nil, nil }
func (h *hasty) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, nil }
func (h *hasty) Err() error                                               { return nil }
func (h *hasty) Close() error                                             { return nil }

// quick is hasty as a QuickConn.
type quick struct{ *hasty }

func (q quick) ReceiveReply(r *Reply) error {
	value, err := q.receive()
	r.Set(value)
	return err
}

// Nobody reads it then. Another library's connection may keep arguments until it writes.
func TestACallIsDoneOnceItsWriterHasDoneWithIt(t *testing.T) {
	for _, c := range []struct {
		name string
		conn redis.Conn
		want bool
	}{
		{"the library's connection", quick{newHasty()}, true},
		{"another library's connection", newHasty(), false},
	} {
		p := New(c.conn)
		for _, commands := range []int{1, 5, 1, 5} {
			d := newDoneCall(commands)
			send(t, p, &d.Call)
			require.Equal(t, c.want, <-d.said, "%s, %d commands", c.name, commands)
		}
		p.Kill(errors.New("killed"))
		<-p.Done()
	}
}

// A writer may still read it. What is sent afterwards is done again.
func TestACallThatIsAnsweredWhileItsBatchIsSentIsNotDone(t *testing.T) {
	conn := quick{newHasty()}
	p := New(conn)
	before := newDoneCall(5) // five commands count as one call
	send(t, p, &before.Call)
	require.True(t, <-before.said)

	conn.early = true
	first, second := newDoneCall(1), newDoneCall(2)
	flush, _, err := p.Queue(&first.Call, 0, nil)
	require.NoError(t, err)
	require.True(t, flush)
	_, _, err = p.Queue(&second.Call, 0, nil)
	require.NoError(t, err)
	p.Flush()
	require.False(t, <-first.said)
	require.False(t, <-second.said)

	conn.early = false
	after := newDoneCall(1)
	send(t, p, &after.Call)
	require.True(t, <-after.said)
	p.Kill(errors.New("killed"))
	<-p.Done()
}

// A writer may be about to send it, or to go on with it.
func TestACallOfABrokenPipeIsNotDone(t *testing.T) {
	for _, flushed := range []bool{true, false} {
		conn := quick{newHasty()}
		conn.mute = true
		p := New(conn)
		d := newDoneCall(1)
		_, _, err := p.Queue(&d.Call, 0, nil)
		require.NoError(t, err)
		if flushed {
			p.Flush()
		}
		p.Kill(errors.New("killed"))
		require.False(t, <-d.said)
		if !flushed {
			p.Flush()
		}
		<-p.Done()
	}
}

func TestASeriesWhoseLastAnswerComesAfterThePipeBrokeIsNotDone(t *testing.T) {
	conn := quick{newHasty()}
	conn.mute = true
	p := New(conn)
	d := newDoneCall(2)
	first := &firstOf{d, make(chan struct{})}
	d.To = first
	send(t, p, &d.Call)
	conn.answers <- 1
	<-first.came
	p.Kill(errors.New("killed"))
	require.False(t, <-d.said)
	<-p.Done()
}

// firstOf tells that the first answer has come.
type firstOf struct {
	*doneCall
	came chan struct{}
}

func (f *firstOf) Receive(reply any, err error) {
	if f.left == 2 {
		close(f.came)
	}
	f.doneCall.Receive(reply, err)
}
