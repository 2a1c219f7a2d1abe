package main

import (
	"fmt"
	"io"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// writeLocks prints the lock and the semaphore of a name as JSON, as far as the nodes have them.
func writeLocks(w io.Writer, client *redlock.Client, s *redlock.Status) error {
	for _, l := range overview.LocksOf(s, client.Stats().Nodes, time.Now()) {
		if err := writeJSON(w, &l); err != nil {
			return err
		}
	}
	return nil
}

// writeLock prints one lock for people.
func writeLock(w io.Writer, p paint, s redlock.Status) {
	held, name := overview.Votes(s), p.bold(printable.Quote(s.Name))
	state := overview.StateOf(s)
	by := p.bold(overview.HeldBy(s, state))
	switch {
	case state == overview.Resting:
		fmt.Fprintf(w, "%s: resting after %s, at %d of %d nodes, %s: nobody holds it, and nobody gets it\n",
			name, by, held[s.Holder], len(s.Nodes), remains(s.Remaining))
		fmt.Fprintf(w, "  owner    %s\n", printable.Quote(s.Holder))
	case s.Holder != "":
		fmt.Fprintf(w, "%s: held by %s%s, at %d of %d nodes, %s\n",
			name, by, heldFor(s.Since), held[s.Holder], len(s.Nodes), unlessRenewed(s.Remaining))
		fmt.Fprintf(w, "  owner    %s\n", printable.Quote(s.Holder))
		if !s.Since.IsZero() {
			fmt.Fprintf(w, "  since    %s, by the holder's clock\n", s.Since.Format(time.DateTime))
		}
	case len(overview.HoldingReaders(s)) > 0:
		fmt.Fprintf(w, "%s: held by %s%s, %s\n", name, by, heldFor(heldSince(s)), unlessRenewed(s.Remaining))
	case state == overview.Held:
		fmt.Fprintf(w, "%s: %s held\n", name, by)
	default:
		fmt.Fprintf(w, "%s: %s\n", name, p.at(state.Level(), state.Text()))
	}
	if s.Holder != "" || len(overview.HeldPermits(s)) == 0 { // each permit has its own
		fmt.Fprintf(w, "  token    %d (the greatest so far)\n", s.Token)
	}
	rows := [][]string{{"  NODE", "OWNER", "TTL", "COUNT", "QUEUE"}}
	for _, n := range s.Nodes {
		rows = append(rows, nodeRow(&n))
	}
	writeTable(w, p, rows)
	writeReaders(w, s.Readers)
	writePermits(w, s.Permits)
	for i, waiter := range s.Queue {
		if i == 0 {
			fmt.Fprintf(w, "  waiting: %d\n", len(s.Queue))
		}
		what := ""
		switch wants := overview.Wants(&waiter, len(s.Readers) > 0); {
		case waiter.Limit > 0:
			what = fmt.Sprintf(", wants %d of %s", waiter.Permits, counted(waiter.Limit, "permit"))
		case wants != overview.WantsLock:
			what = ", wants " + wants
		}
		fmt.Fprintf(w, "  %4d. %s, waiting for %v%s, at %s\n", i+1, overview.WaiterLabel(&waiter),
			printable.Duration(max(time.Since(waiter.Since), 0)), what, counted(waiter.Nodes, "node"))
	}
	if text := overview.DifferentLimits(overview.LimitsOf(s.Queue)); text != "" {
		fmt.Fprintf(w, "  %s\n",
			p.yellow("callers give "+text+": as many as the greatest may be held; give all callers the same number"))
	}
}

func nodeRow(n *redlock.NodeStatus) []string {
	owner, ttl := "-", "-"
	switch {
	case n.Err != nil:
		return []string{"  " + n.Node, "? " + n.Err.Error()}
	case n.Holder != "":
		owner, ttl = ownerCell(n.Holder), left(n.Remaining)
	case overview.HasShares(n):
		owner, ttl = counted(len(n.Readers), "reader"), left(n.Remaining)
	case len(n.Permits) > 0:
		owner = counted(len(n.Permits), "permit")
	case n.Reserved != "":
		owner, ttl = string(overview.SaysReserved)+" for the next waiter", left(n.Remaining)
	}
	return []string{"  " + n.Node, owner, ttl, fmt.Sprint(n.Count), fmt.Sprint(len(n.Queue))}
}

// shortOwner returns an owner with so much of its random part as distinguishes leases.
func shortOwner(owner string) string {
	const enough = 6
	random := []rune(owner)
	if protocol.LabelOf(owner) == "" || len(random) <= enough {
		return printable.Quote(owner)
	}
	return printable.Quote(string(random[:enough])) + "…"
}

// ownerCell returns an owner's label, and enough of its random part to distinguish its
// leases; or the whole owner if it has no label.
func ownerCell(owner string) string {
	if label := overview.ReadableOwner(owner); label != owner {
		return printable.Quote(label) + " (" + shortOwner(owner) + ")"
	}
	return printable.Quote(owner)
}

// namedOwner is ownerCell, or with whole set the label and the whole owner.
func namedOwner(owner string, whole bool) string {
	if label := overview.ReadableOwner(owner); whole && label != owner {
		return printable.Quote(label) + " (" + printable.Quote(owner) + ")"
	}
	return ownerCell(owner)
}

// age returns how long ago a lease was granted at an instant of its holder's clock: 0s if that clock is ahead
// of this machine's, and "-" if the instant is not known.
func age(since time.Time) string {
	if since.IsZero() {
		return "-"
	}
	return printable.Age(max(time.Since(since), 0))
}

// heldFor returns " for " and the age of a lease; nothing if that is not known.
func heldFor(since time.Time) string {
	if since.IsZero() {
		return ""
	}
	return " for " + age(since)
}

// left returns how much of a ttl is left.
func left(d time.Duration) string {
	if d < 0 {
		return overview.NoEnd
	}
	return printable.Duration(d)
}

// remains returns for how long a key lasts, in a sentence.
func remains(d time.Duration) string {
	if d < 0 {
		return overview.WithoutEnd
	}
	return "for another " + left(d)
}

// unlessRenewed is remains for a key that its holder renews, if it ends.
func unlessRenewed(d time.Duration) string {
	if d < 0 {
		return overview.WithoutEnd
	}
	return remains(d) + " unless renewed"
}

// writeTable aligns columns; the first row is the heading. If a row is shorter than the
// heading, its last cell does not count for the column's width. Cells may have text of
// servers and other clients.
func writeTable(w io.Writer, p paint, rows [][]string) {
	for _, row := range rows {
		for i, cell := range row {
			row[i] = printable.Line(cell)
		}
	}
	width := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			if len(row) == len(rows[0]) || i < len(row)-1 {
				width[i] = max(width[i], utf8.RuneCountInString(cell))
			}
		}
	}
	for i, row := range rows {
		var line strings.Builder
		for j, cell := range row {
			line.WriteString(cell)
			if j < len(row)-1 {
				line.WriteString(strings.Repeat(" ", width[j]-utf8.RuneCountInString(cell)+2))
			}
		}
		text := line.String()
		if i == 0 {
			text = p.dim(text)
		}
		fmt.Fprintln(w, text)
	}
}
