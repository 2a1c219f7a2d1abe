package top

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/overview"
)

var update = flag.Bool("update", false, "write the expected texts anew")

// simulated returns a screen in memory.
func simulated(t *testing.T, columns, rows int) tcell.SimulationScreen {
	t.Helper()
	screen := tcell.NewSimulationScreen("UTF-8")
	require.NoError(t, screen.Init())
	t.Cleanup(screen.Fini)
	screen.SetSize(columns, rows)
	return screen
}

// textOf returns what a screen shows, without trailing space.
func textOf(screen tcell.SimulationScreen) string {
	all, columns, rows := screen.GetContents()
	var text strings.Builder
	for y := range rows {
		var row strings.Builder
		for x := 0; x < columns; {
			c := &all[y*columns+x]
			row.WriteString(string(c.Runes))
			x += max(width(string(c.Runes)), 1)
		}
		text.WriteString(strings.TrimRight(row.String(), " ") + "\n")
	}
	return text.String()
}

// drawn draws a face on a screen in memory.
func drawn(t *testing.T, f *face, columns, rows int) tcell.SimulationScreen {
	t.Helper()
	return drawnAt(t, f, instant, columns, rows)
}

// drawnAt is drawn at an instant.
func drawnAt(t *testing.T, f *face, now time.Time, columns, rows int) tcell.SimulationScreen {
	t.Helper()
	screen := simulated(t, columns, rows)
	drawPage(screen, f.page(now, columns, rows), true)
	screen.Show()
	return screen
}

// requireGolden compares a text with a file of testdata.
func requireGolden(t *testing.T, file, text string) {
	t.Helper()
	path := "testdata/" + file + ".txt"
	if *update {
		require.NoError(t, os.WriteFile(path, []byte(text), 0o644))
	}
	want, err := os.ReadFile(path)
	require.NoError(t, err)
	assert.Equal(t, string(want), text, "go test ./internal/top -update writes it anew")
}

func TestScreenAtThreeWidths(t *testing.T) {
	for state, s := range map[string]*overview.Snapshot{"demo": demo(), "no-quorum": withoutQuorum(), "hostile": hostile(), "empty": empty()} {
		for _, columns := range []int{60, 100, 160} {
			f := &face{}
			f.take(s)
			text := textOf(drawn(t, f, columns, 30))
			requireGolden(t, fmt.Sprintf("%s-%d", state, columns), text)
			for row := range strings.Lines(text) {
				assert.LessOrEqual(t, width(strings.TrimSuffix(row, "\n")), columns)
			}
		}
	}
}

func TestOtherPages(t *testing.T) {
	for page, keys := range map[string]string{"details": "j\n", "details-waiters": "\n", "help": "?", "filter": "/inv", "unlock": "udeploym", "unlock-permits": "judeploym"} {
		f := &face{}
		f.take(demo())
		typeKeys(f, keys)
		f.snapshot = demo() // as if the filter let all through
		requireGolden(t, "page-"+page, textOf(drawn(t, f, 100, 30)))
	}
}

func TestPrintHasWholeCellsAndNoEscapes(t *testing.T) {
	for state, s := range map[string]*overview.Snapshot{"demo": demo(), "no-quorum": withoutQuorum(), "hostile": hostile(), "empty": empty()} {
		var out bytes.Buffer
		require.NoError(t, Print(&out, s))
		requireGolden(t, "print-"+state, out.String())
	}
}

func TestNothingThatIsNotPrintableReachesTheScreen(t *testing.T) {
	f := &face{}
	f.take(hostile())
	for _, keys := range []string{"", "\n", "u", "\x1b\x1bjjjj\n"} {
		typeKeys(f, keys)
		all, _, _ := drawn(t, f, 80, 24).GetContents()
		for _, c := range all {
			for _, r := range c.Runes {
				require.True(t, unicode.IsPrint(r), "%q", c.Runes)
			}
		}
	}
}

// Small terminals show what matters most, and none makes it panic.
func TestAnySizeOfScreenShows(t *testing.T) {
	for _, s := range []*overview.Snapshot{nil, empty(), demo(), withoutQuorum(), hostile()} {
		for _, keys := range []string{"", "jjjj", "\n", "u", "?", "/x"} {
			for columns := range 40 {
				for rows := range 12 {
					f := &face{}
					if s != nil {
						f.take(s)
					}
					typeKeys(f, keys)
					require.LessOrEqual(t, len(f.page(instant, columns+1, rows+1)), rows+1)
				}
			}
		}
	}
	f := &face{}
	f.take(withoutQuorum())
	require.True(t, strings.HasPrefix(textOf(drawn(t, f, 60, 10)), "Locks are not available: 2 of 5 masters vote, and 3 must."))
}

// The chosen row stays on the screen, with the lines that belong to it.
func TestTheChosenRowIsOnTheScreen(t *testing.T) {
	f := &face{}
	s := demo()
	for i := range 100 {
		s.Rows = append(s.Rows, held(fmt.Sprintf("lock-%02d", i), "one", 1, 1, overview.Renews, "●●●✕●", 1))
	}
	f.take(s)
	for _, r := range s.Rows {
		require.Same(t, r, f.row())
		require.Contains(t, textOf(drawn(t, f, 100, 24)), r.Title)
		typeKeys(f, "j")
	}
	typeKeys(f, "[HOME]")
	for _, move := range []string{"[PGDN][PGDN]", "[END]", "[PGUP]", "[UP]", "[HOME]"} {
		typeKeys(f, move)
		require.Contains(t, textOf(drawn(t, f, 100, 24)), f.row().Title)
	}
}
