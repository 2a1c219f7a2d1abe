package overview_test

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const ms = time.Millisecond

// run runs a model in virtual time until stop is called.
func run(t *testing.T, net *testnet.Net, source overview.Source, opts overview.Options) (m *overview.Model, stop func()) {
	t.Helper()
	opts.Clock = net.Clock.Now
	return overview.Start(source, opts)
}

// watch runs a model and a watcher of it.
func watch(t *testing.T, net *testnet.Net, source overview.Source, v overview.View) (*overview.Watcher, func()) {
	t.Helper()
	m, stop := run(t, net, source, overview.Options{})
	w := m.Watch(v)
	return w, func() {
		w.Close()
		stop()
	}
}

// latest returns the newest snapshot after so long, and the one before if there is none.
func latest(t *testing.T, w *overview.Watcher, before *overview.Snapshot, d time.Duration) *overview.Snapshot {
	t.Helper()
	time.Sleep(d)
	synctest.Wait()
	select {
	case s := <-w.Updates():
		return s
	default:
		require.NotNil(t, before, "no snapshot came")
		return before
	}
}

// rowOf returns the row with a title.
func rowOf(t *testing.T, s *overview.Snapshot, title string) *overview.Row {
	t.Helper()
	i := slices.IndexFunc(s.Rows, func(r *overview.Row) bool { return r.Title == title })
	require.GreaterOrEqual(t, i, 0, "no row %q in %q", title, titles(s))
	return s.Rows[i]
}

func titles(s *overview.Snapshot) (all []string) {
	for _, r := range s.Rows {
		all = append(all, r.Title)
	}
	return all
}

// signs returns the signs of words.
func signs(words []overview.Word) string {
	var b strings.Builder
	for _, w := range words {
		b.WriteString(w.Sign().Glyph)
	}
	return b.String()
}

// executed counts a command at all nodes.
func executed(net *testnet.Net, label string) (all int) {
	for _, n := range net.Nodes {
		all += n.Executed(label)
	}
	return all
}

// lock acquires a mutex for a client of its own, with a label.
func lock(t *testing.T, net *testnet.Net, name, label string, opts ...redlock.ClientOption) *redlock.Lease {
	t.Helper()
	lease := net.Must(net.Client(append(opts, redlock.WithOwnerLabel(label))...).Mutex(name).Lock(t.Context()))
	return lease
}
