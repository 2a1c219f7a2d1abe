package top

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/planted"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The screen, and what Print writes, show each planted state in the order of the table that the page's test has too, with its
// words, and as Inspect has it.
func TestPlantedStatesShowOnTheTerminal(t *testing.T) {
	testnet.InBubble(t, planted.Masters, func(t *testing.T, net *testnet.Net) {
		planted.Plant(t, net)
		client := net.Client()
		m, stop := overview.Start(client, overview.Options{Clock: net.Clock.Now})
		defer stop()
		w := m.Watch(overview.View{})
		defer w.Close()
		planted.Settle()
		for i := range planted.Clusters {
			cluster := &planted.Clusters[i]
			cluster.Enter(net)
			synctest.Wait()
			s := <-w.Updates()
			f := &face{}
			f.take(s)
			typeKeys(f, "[END]") // the chosen row is reversed, and has no colours
			var printed bytes.Buffer
			require.NoError(t, Print(&printed, s))
			screen := textOf(drawnAt(t, f, s.Taken, 200, 50))
			for _, text := range []string{screen, printed.String()} {
				for _, shown := range cluster.Shows {
					assert.Contains(t, text, shown, cluster.Planted)
				}
				cluster.RequireRows(t, client, rowsOf(text), func(begun time.Time) string { return since(begun, s.Taken) })
			}
		}
	})
}

// rowsOf returns the rows of a text with a table: a row ends where the next one or a title begins.
func rowsOf(text string) (rows []planted.Row) {
	_, table, _ := strings.Cut(text, "NEXT, OR WHY")
	for l := range strings.Lines(table) {
		i := slices.IndexFunc(planted.Locks, func(p planted.Lock) bool {
			return strings.HasPrefix(strings.TrimLeft(l, "! "), p.Title+" ")
		})
		switch {
		case i >= 0:
			rows = append(rows, planted.Row{Title: planted.Locks[i].Title, Text: l})
		case len(rows) > 0 && strings.HasPrefix(l, "   "):
			rows[len(rows)-1].Text += l
		}
	}
	return rows
}
