package top

import (
	"strings"
	"testing"

	"github.com/gdamore/tcell/v2"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/overview"
)

var special = map[string]tcell.Key{"[UP]": tcell.KeyUp, "[DOWN]": tcell.KeyDown, "[PGUP]": tcell.KeyPgUp, "[PGDN]": tcell.KeyPgDn,
	"[HOME]": tcell.KeyHome, "[END]": tcell.KeyEnd, "[BS]": tcell.KeyBackspace2, "\n": tcell.KeyEnter, "\x1b": tcell.KeyEsc,
	"\x03": tcell.KeyCtrlC, "\x1a": tcell.KeyCtrlZ, "\x15": tcell.KeyCtrlU}

// typeKeys types keys, and returns what the last one asks for.
func typeKeys(f *face, keys string) (last action) {
next:
	for keys != "" {
		for text, key := range special {
			if rest, found := strings.CutPrefix(keys, text); found {
				last, keys = f.key(tcell.NewEventKey(key, 0, 0)), rest
				continue next
			}
		}
		r := []rune(keys)[0]
		last, keys = f.key(tcell.NewEventKey(tcell.KeyRune, r, 0)), keys[len(string(r)):]
	}
	return last
}

func listed() *face {
	f := &face{}
	f.take(demo())
	return f
}

func TestKeysThatEndOrStop(t *testing.T) {
	for _, before := range []string{"", "\n", "?", "/x", "u"} {
		for key, want := range map[string]action{"\x03": quit, "\x1a": suspend} {
			f := listed()
			typeKeys(f, before)
			require.Equal(t, want, typeKeys(f, key), "%q", before)
		}
	}
	require.Equal(t, quit, typeKeys(listed(), "q"))
	require.Equal(t, quit, typeKeys(listed(), "\nq"))
	require.NotEqual(t, quit, typeKeys(listed(), "/q"), "it is a part of the filter")
	require.NotEqual(t, quit, typeKeys(listed(), "uq"), "it is a part of the name")
}

func TestFilterFollowsEachCharacter(t *testing.T) {
	f := listed()
	require.Equal(t, show, typeKeys(f, "/inv"))
	require.Equal(t, "inv", f.view.Filter)
	shown := f.snapshot
	f.take(demo())
	require.Same(t, shown, f.snapshot, "a snapshot of another view is out of date")
	filtered := demo()
	filtered.View.Filter = "inv"
	f.take(filtered)
	require.Same(t, filtered, f.snapshot)
	require.Equal(t, show, typeKeys(f, "[BS]"))
	require.Equal(t, "in", f.view.Filter)
	typeKeys(f, "\n")
	require.Equal(t, listing, f.mode)
	require.Equal(t, show, typeKeys(f, "/x\x1b"), "given up")
	require.Equal(t, "in", f.view.Filter)
	require.Equal(t, show, typeKeys(f, "/\x15"))
	require.Empty(t, f.view.Filter)
	typeKeys(f, "a\n")
	require.Equal(t, show, typeKeys(f, "\x1b"))
	require.Empty(t, f.view.Filter)
}

func TestSortGoesThroughAllOrders(t *testing.T) {
	f := listed()
	var all []overview.Order
	for range overview.Orders() {
		require.Equal(t, show, typeKeys(f, "s"))
		all = append(all, f.view.Order)
	}
	require.Equal(t, append(overview.Orders()[1:], overview.ByNeed), all)
}

func TestTheChosenRowStaysChosenWhereverItMoves(t *testing.T) {
	f := listed()
	typeKeys(f, "jj")
	require.Equal(t, "catalog", f.row().Title)
	moved := demo()
	moved.Rows[2], moved.Rows[7] = moved.Rows[7], moved.Rows[2]
	f.take(moved)
	require.Equal(t, "catalog", f.row().Title)
	gone := demo()
	gone.Rows = gone.Rows[:4]
	f.take(gone)
	f.take(demo())
	require.Equal(t, "catalog", f.row().Title)
	gone.Rows = append(gone.Rows[:2:2], gone.Rows[3:]...)
	f.take(gone)
	require.Equal(t, "legacy-job", f.row().Title, "what is in its place now")
}

func TestDetailsStayWithTheLockThatIsGone(t *testing.T) {
	f := listed()
	typeKeys(f, "\n")
	gone := demo()
	gone.Rows = gone.Rows[1:]
	f.take(gone)
	require.Contains(t, textOf(drawn(t, f, 80, 20)), "not in the list any more")
	f.take(demo())
	require.Contains(t, textOf(drawn(t, f, 80, 20)), "cron-7:88")
	typeKeys(f, "\x1b")
	require.Equal(t, listing, f.mode)
}

func TestOnlyTheExactNameTakesALockAway(t *testing.T) {
	for _, typed := range []string{"", "back", "backup ", " backup", "Backup", "backup2", "catalog", "backupx[BS]x"} {
		f := listed()
		require.Equal(t, none, typeKeys(f, "u"+typed+"\n"), "%q", typed)
		require.Contains(t, f.message.text, "nothing was changed")
		require.Equal(t, listing, f.mode)
	}
	f := listed()
	require.Equal(t, none, typeKeys(f, "ubackup\x1b"))
	require.Equal(t, none, typeKeys(f, "\n"), "it shows the details")
	f = listed()
	require.Equal(t, breakIt, typeKeys(f, "ubackup\n"))
	require.Equal(t, "backup", f.breaking.names[f.breaking.chosen].Raw)
	require.Contains(t, f.breaking.owners[f.breaking.chosen][0], "@cron-7:88")

	f = listed()
	require.Equal(t, none, typeKeys(f, "judeployments\n"), "a semaphore's permits have names of their own")
	require.Equal(t, breakIt, typeKeys(f, "udeployments#2\n"))
	require.Equal(t, "deployments#2", f.breaking.names[f.breaking.chosen].Raw)
	require.Contains(t, f.breaking.owners[f.breaking.chosen][0], "@ci-2:40")

	f = &face{}
	f.take(hostile())
	require.Equal(t, breakIt, typeKeys(f, `ju"two\nlines: free"`+"\n"), "as it shows")
	require.Equal(t, "two\nlines: free", f.breaking.names[f.breaking.chosen].Raw)

	free := demo()
	free.Rows[0].Holders = nil
	f = &face{}
	f.take(free)
	require.Equal(t, none, typeKeys(f, "u"))
	require.Equal(t, listing, f.mode)
	require.Contains(t, f.message.text, "Nobody holds backup")
}
