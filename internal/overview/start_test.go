package overview_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/overview"
)

// panicking is set in the process in which the Model panics.
const panicking = "REDLOCK_TEST_PANICKING"

// The text of a panic must be readable: what OnPanic does comes first.
func TestOnPanicIsCalledAheadOfAPanic(t *testing.T) {
	if os.Getenv(panicking) != "" {
		m, _ := overview.Start(&fake{looks: make(map[string]int)}, overview.Options{
			Wall: func() time.Time { panic("a bug") }, OnPanic: func() { fmt.Fprintln(os.Stderr, "restored") }})
		_, _ = m.Snapshot(t.Context(), overview.View{})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOnPanicIsCalledAheadOfAPanic$")
	cmd.Env = append(os.Environ(), panicking+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, `(?s)^restored\npanic: a bug`, string(out))
}

func TestStopOfAModelAwaitsWhatItHasStarted(t *testing.T) {
	f := &fake{perLock: time.Second, locks: many(10), looks: make(map[string]int)}
	synctest.Test(t, func(t *testing.T) {
		m, stop := overview.Start(f, overview.Options{})
		w := m.Watch(overview.View{})
		defer w.Close()
		time.Sleep(100 * ms)
		f.mu.Lock()
		require.Equal(t, 1, f.under, "a pass")
		f.mu.Unlock()
		stop()
		f.mu.Lock()
		require.Zero(t, f.under)
		f.mu.Unlock()
		stop()
	})
}
