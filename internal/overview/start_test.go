package overview_test

import (
	"fmt"
	"os"
	"os/exec"
	"testing"
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

func TestStopOfAModelMayBeCalledAgain(t *testing.T) {
	m, stop := overview.Start(&fake{looks: make(map[string]int)}, overview.Options{})
	w := m.Watch(overview.View{})
	defer w.Close()
	<-w.Updates()
	stop()
	stop() // goleak finds what has not ended
}
