package admission

import (
	"io"
	"math"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/test/testreply"
)

// A node votes only if its server answered that its record is whole, whatever else it
// answers.
func FuzzAdmission(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		conn := testreply.NewConn(replies)
		p := pipe.New(conn)
		defer func() {
			p.Kill(io.EOF)
			<-p.Done()
		}()
		m := newMember(Terms{Guard: 10 * time.Second, TTL: 10 * time.Second, MaxTTL: time.Hour})
		m.Connected(p, "run")
		m.Check(t.Context())
		switch r := m.Current(); {
		case r == nil: // nothing is known of it yet
		case r.Votes:
			require.True(t, conn.SaidWhole, "%#v", replies)
		default:
			require.Error(t, r.Why())
		}
	}, []any{ // a quarantine that is over, and the answers that a refill needs then
		[]any{[]byte("barred"), []byte("name"), int64(0), int64(math.MaxInt64), []byte("name"), int64(1)},
		[]byte("older"), []any{[]byte("7"), []byte("12")}, []any{[]byte("1"), []byte("2")}, int64(1),
		[]any{[]byte("whole"), []byte("record"), []byte("1"), int64(1000), int64(1)}})
}
