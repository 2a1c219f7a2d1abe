package pipe

import (
	"errors"
	"io"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

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
