package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/protocol"
)

// writePermits prints each permit that a node has, whether a majority has it or not.
func writePermits(w io.Writer, permits []redlock.PermitStatus) {
	for i, p := range permits {
		if i == 0 {
			fmt.Fprintln(w, "  permits:")
		}
		lasts, held := "no majority has it", ""
		if p.Remaining != 0 {
			held = heldFor(p.Since)
			lasts = unlessRenewed(p.Remaining)
		}
		fmt.Fprintf(w, "    slot %d: %s%s, at %s, %s, greatest token %d\n", p.Slot, ownerCell(p.Owner), held,
			counted(p.Nodes, "node"), lasts, p.Token)
	}
}

// checkPermits checks the flags --permits and --take.
func (f *runFlags) checkPermits(given func(string) bool, names int) error {
	switch {
	case given("take") && !given("permits"):
		return usage("--take is for a semaphore: give --permits, the number of its permits, too")
	case !given("permits"):
		return nil
	case f.permits < 1:
		return usage("--permits %d: a semaphore has at least 1", f.permits)
	case f.take < 1 || f.take > f.permits:
		return usage("--take %d: it must be 1 to %d, the number of permits", f.take, f.permits)
	case names > 1:
		return usage("--permits is for one name, not for %d", names)
	case f.read:
		return usage("--permits and --read exclude each other")
	case f.minHold > 0:
		return usage("--min-hold is not for permits")
	}
	return nil
}

// slotsOf returns the numbers of the lease's slots, with spaces between; "" if it has no permits.
func slotsOf(lease *redlock.Lease) string {
	var slots []string
	for _, slot := range lease.Slots() {
		slots = append(slots, strconv.Itoa(slot))
	}
	return strings.Join(slots, " ")
}

// hasTooMany reports whether the owners have so many permits that this command would wait for them.
func (f *runFlags) hasTooMany(s redlock.Status, owners []string) bool {
	has := 0
	for _, p := range overview.HeldPermits(s) {
		if slices.Contains(owners, p.Owner) {
			has++
		}
	}
	return has > 0 && has+f.take > f.permits
}

// breakPermits takes all permits of a semaphore from their holders: all at once, since a waiter gets a slot
// as soon as it is free. Of several errors it returns the first.
func breakPermits(ctx context.Context, out io.Writer, client *redlock.Client, name string, verbose bool) error {
	s, err := client.Inspect(ctx, name)
	if err != nil {
		return coded(err)
	}
	slots := make([]int, len(s.Permits))
	for i, p := range s.Permits {
		slots[i] = p.Slot
	}
	slots = slices.Compact(slots) // they are in order
	if len(slots) == 0 {
		why := fmt.Errorf("nobody holds permits of %q: nothing was changed", name)
		if s.Holder != "" || len(overview.HoldingReaders(s)) > 0 {
			why = fmt.Errorf("%q is held as a lock, and no permits of it are held: nothing was changed; break the "+
				"lock without --permits", name)
		}
		return &exit{code: codeFree, why: why}
	}
	found, errs := make([]redlock.Status, len(slots)), make([]error, len(slots))
	var all sync.WaitGroup
	for i, slot := range slots {
		all.Go(func() { found[i], errs[i] = client.ForceUnlock(ctx, name+protocol.SlotMark+strconv.Itoa(slot)) })
	}
	all.Wait()
	for i, err := range errs {
		if isBroken(err) {
			printBroken(out, found[i], verbose)
		}
	}
	return coded(cmp.Or(errs...))
}
