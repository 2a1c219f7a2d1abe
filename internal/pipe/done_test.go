package pipe

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// done records what IsDone says at the last Receive.
type done struct {
	call *Call
	said chan bool
}

func (d *done) Receive(any, error) { d.said <- d.call.IsDone() }

// hasty is a connection that answers a command as it gets it, and returns when the answer was delivered; or, if it is
// not early, when it flushes.
type hasty struct {
	early   bool
	sent    int
	answers chan int64
	next    chan struct{}
	cut     chan struct{}
}

func newHasty(early bool) *hasty {
	return &hasty{early: early, answers: make(chan int64, 8), next: make(chan struct{}, 8), cut: make(chan struct{})}
}

func (h *hasty) Send(string, ...any) error {
	if h.sent++; h.early {
		h.answers <- 1
		<-h.next // the reader asks for the next one, so it has delivered this one
	}
	return nil
}

func (h *hasty) Flush() error {
	for ; h.sent > 0 && !h.early; h.sent-- {
		h.answers <- 1
	}
	return nil
}

func (h *hasty) receive() (any, error) {
	select {
	case n := <-h.answers:
		return n, nil
	case <-h.cut:
		return nil, errors.New("cut")
	}
}

func (h *hasty) ReceiveWithTimeout(time.Duration) (any, error)            { return h.receive() }
func (h *hasty) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, nil }
func (h *hasty) DoContext(context.Context, string, ...any) (any, error)   { return nil, nil }
func (h *hasty) ReceiveContext(context.Context) (any, error)              { close(h.cut); return nil, nil }
func (h *hasty) Receive() (any, error)                                    { return h.receive() }
func (h *hasty) Do(string, ...any) (any, error)                           { return nil, nil }
func (h *hasty) Err() error                                               { return nil }
func (h *hasty) Close() error                                             { return nil }

// quick is hasty as a QuickConn.
type quick struct{ *hasty }

func (q quick) ReceiveReply(r *Reply) error {
	if q.early {
		q.next <- struct{}{}
	}
	value, err := q.receive()
	r.Set(value)
	return err
}

// A call whose answer comes while a writer may still read it must not be used again.
func TestACallIsDoneOnceItsWriterHasDoneWithIt(t *testing.T) {
	ahead := quick{newHasty(true)}
	for _, c := range []struct {
		name string
		conn redis.Conn
		want bool
	}{
		{"answered after the write", quick{newHasty(false)}, true},
		{"answered ahead of the write", ahead, false},
		{"another library's connection", newHasty(false), false},
	} {
		p := New(c.conn)
		if c.conn == redis.Conn(ahead) {
			<-ahead.next // the reader's first
		}
		for range 3 {
			d := &done{said: make(chan bool, 1)}
			d.call = &Call{Command: "PING", To: d}
			send(t, p, d.call)
			require.Equal(t, c.want, <-d.said, c.name)
		}
		p.Kill(errors.New("killed"))
		<-p.Done()
	}
}

// Nor a call that got no answer: the writer may be about to send it.
func TestACallWithoutAnAnswerIsNotDone(t *testing.T) {
	for _, flush := range []bool{true, false} {
		conn := quick{newHasty(false)}
		p := New(conn)
		d := &done{said: make(chan bool, 1)}
		d.call = &Call{Command: "PING", To: d, done: true} // from the call before
		if flush {
			conn.sent = -1 // it answers nothing
		}
		_, _, err := p.Queue(d.call, 0, nil)
		require.NoError(t, err)
		if flush {
			p.Flush()
		}
		p.Kill(errors.New("killed"))
		require.False(t, <-d.said)
		if !flush {
			p.Flush()
		}
		<-p.Done()
	}
}
