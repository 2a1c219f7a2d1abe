package top

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is a screen whose text may be read while Run draws.
type recorder struct {
	tcell.SimulationScreen
	columns, rows int
	ready         chan struct{} // closed when keys may be typed

	mu    sync.Mutex // protects what follows
	text  string
	finis int
}

func newRecorder(columns, rows int) *recorder {
	return &recorder{SimulationScreen: tcell.NewSimulationScreen("UTF-8"), columns: columns, rows: rows, ready: make(chan struct{})}
}

func (r *recorder) Init() error {
	err := r.SimulationScreen.Init()
	r.SetSize(r.columns, r.rows)
	close(r.ready)
	return err
}

func (r *recorder) Show() {
	r.SimulationScreen.Show()
	text := textOf(r.SimulationScreen)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.text = text
}

func (r *recorder) Fini() {
	r.SimulationScreen.Fini()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.finis++
}

func (r *recorder) shown() string {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.text
}

// types types keys as typeKeys has them.
func (r *recorder) types(keys string) {
next:
	for keys != "" {
		for text, key := range special {
			if rest, found := strings.CutPrefix(keys, text); found {
				r.InjectKey(key, 0, 0)
				keys = rest
				continue next
			}
		}
		c := []rune(keys)[0]
		r.InjectKey(tcell.KeyRune, c, 0)
		keys = keys[len(string(c)):]
	}
}

// await waits until the screen shows a text.
func (r *recorder) await(t *testing.T, text string) {
	t.Helper()
	if !assert.Eventually(t, func() bool { return strings.Contains(r.shown(), text) }, 20*time.Second, 5*time.Millisecond) {
		require.FailNow(t, "the screen does not show "+text, r.shown())
	}
}

// running runs the face over embedded nodes until quit is called, which returns Run's error.
func running(t *testing.T, nodes *redlocktest.Nodes, opts Options) (screen *recorder, quit func() error) {
	t.Helper()
	client := testclient.Open(t, nodes.URLs())
	m, stop := overview.Start(client, overview.Options{})
	ctx, cancel := context.WithCancel(t.Context())
	screen = newRecorder(100, 30)
	var all sync.WaitGroup
	var result error
	over := make(chan struct{})
	all.Go(func() {
		defer close(over)
		result = Run(ctx, screen, m, opts)
	})
	<-screen.ready
	t.Cleanup(func() {
		cancel()
		all.Wait()
		stop()
		assert.NoError(t, client.Close())
	})
	return screen, func() error {
		<-over
		return result
	}
}

func TestTheScreenFollowsTheLocksAndTheKeys(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	nodes.Hold(t, "backup", "cron-7:88")
	nodes.Hold(t, "nightly", "cron-1:5")
	screen, over := running(t, nodes, Options{})
	screen.await(t, "Locks are available: 3 of 3 masters vote, 1 more may fail.")
	screen.await(t, "cron-7:88")
	screen.types("/nigh")
	screen.await(t, `2 locks, 1 with nigh`)
	screen.await(t, "nightly")
	assert.NotContains(t, screen.shown(), "cron-7:88")
	screen.types("\n\n")
	screen.await(t, "it has the holder's key")
	screen.types("\x1b\x1b")
	screen.await(t, "cron-7:88")

	waiter := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel("cron-2:91"))
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var waits sync.WaitGroup
	waits.Go(func() { _, _ = waiter.Mutex("nightly").Lock(ctx) })
	screen.await(t, "cron-2:91")
	assert.Less(t, strings.Index(screen.shown(), "nightly"), strings.Index(screen.shown(), "backup"), "it is waited for")
	screen.SetSize(60, 20)
	require.Eventually(t, func() bool {
		return strings.Count(screen.shown(), "\n") == 20 && strings.Contains(screen.shown(), "backup")
	}, 10*time.Second, 5*time.Millisecond)
	nodes.Stop(1)
	screen.await(t, "Locks are available: 2 of 3 masters vote, none of them")
	screen.await(t, "→ Start the server")
	screen.types("q")
	require.NoError(t, over())
	cancel()
	waits.Wait()
}

func TestOnlyTheTypedNameUnlocks(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	nodes.Hold(t, "backup", "cron-7:88")
	var mu sync.Mutex
	var names, owners []string
	screen, over := running(t, nodes, Options{Unlock: func(_ context.Context, name string, of []string) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		names, owners = append(names, name), append(owners, of...)
		if len(names) == 1 {
			return "backup: broken.", nil
		}
		return "", errors.New("another holder")
	}})
	screen.await(t, "cron-7:88")
	screen.types("ubacku\n")
	screen.await(t, "That is not its name, backup: nothing was changed.")
	screen.types("ubackup\n")
	screen.await(t, "backup: broken.")
	screen.types("ubackup\n")
	screen.await(t, "backup: another holder")
	screen.types("\x03")
	require.NoError(t, over())
	assert.Equal(t, []string{"backup", "backup"}, names)
	assert.Contains(t, owners[0], "@cron-7:88")
}

func TestTheTerminalIsRestoredOnAPanic(t *testing.T) {
	screen := newRecorder(80, 24)
	m := overview.New(nil, overview.Options{})
	assert.Panics(t, func() {
		_ = Run(t.Context(), screen, m, Options{Now: func() time.Time { panic("a bug") }})
	})
	assert.Equal(t, 1, screen.finis)
}
