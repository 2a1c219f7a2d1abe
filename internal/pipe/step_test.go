package pipe_test

import (
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/test/simredis"
)

// In a simulation, calls that fail together fail at different instants: everything that
// one of them causes is done before the next one fails.
func TestSimulatedCallsFailOneAfterTheOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		world := simredis.NewWorld(nil)
		server := world.Server(0, func(now time.Duration) time.Duration { return now })
		link := server.Link("client", func(time.Duration, bool, int) simredis.Fate { return simredis.Fate{} })
		conn, err := link.GetContext(t.Context())
		require.NoError(t, err)
		p := pipe.New(conn)
		server.Freeze(true)
		failed := make(instants, 3)
		for range cap(failed) {
			flush, _, err := p.Queue(&pipe.Call{Command: "PING", To: failed}, 0, nil)
			require.NoError(t, err)
			if flush {
				p.Flush()
			}
		}
		p.Kill(errors.New("broken"))
		a, b, c := <-failed, <-failed, <-failed
		require.Less(t, a, b)
		require.Less(t, b, c)
		<-p.Done()
	})
}

// instants records when calls failed.
type instants chan int64

func (i instants) Receive(any, error) { i <- time.Now().UnixNano() }
