package integration

import (
	"bufio"
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/chaos"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// testPermits is how many permits the semaphore of the test has.
const testPermits = 3

// Eight processes take one to three of three permits, while two servers of five fail at random. Each
// writes down from when to when its lease said that it is valid, on the clock that all processes
// share: at no instant are more than three permits held, and none twice; tokens of a slot increase.
func TestNeverMorePermitsThanThereAreWhileTwoServersFail(t *testing.T) {
	t.Parallel()
	length := time.Minute
	if !long.Tests() {
		length = 5 * time.Second // beside the start of servers, admission, and the end
	}
	nodes := cluster.Use(t, 5)
	dir := t.TempDir()
	workers := make([]*worker, 8)
	for i := range workers {
		workers[i] = startWorker(t, "permits", filepath.Join(dir, fmt.Sprint(i)), strings.Join(nodes.ProxyURLs(), ","))
	}
	for _, n := range nodes {
		awaitAdmission(t, n)
	}
	failTwoAtRandom(t, nodes, length)
	var all []permitHeld
	for i, w := range workers {
		w.finish(t)
		held := readPermitsHeld(t, filepath.Join(dir, fmt.Sprint(i)))
		assert.True(t, len(held) > 0 || !long.Tests(), "process %d never had a permit", i)
		all = append(all, held...)
	}
	byLease := make(map[string]int) // permits, by owner
	for _, p := range all {
		byLease[p.owner]++
	}
	leases := make(map[int]int) // by their number of permits
	for _, permits := range byLease {
		leases[permits]++
	}
	t.Logf("%d leases: %d of one permit, %d of two, %d of three", len(byLease), leases[1], leases[2], leases[3])
	require.Empty(t, faultsOfPermits(all))
	for n := 1; n <= testPermits; n++ {
		assert.Positive(t, leases[n], "no lease of %d permits", n)
	}
	assertNoKeys(t, nodes)
}

// permitHeld is a permit that a lease had: from the first to the last instant at which the lease
// said that it is valid.
type permitHeld struct {
	owner    string
	slot     int
	token    int64
	from, to time.Duration
}

// faultsOfPermits returns what cannot be true of a semaphore.
func faultsOfPermits(all []permitHeld) (faults []string) {
	slices.SortFunc(all, func(a, b permitHeld) int { return int(a.from - b.from) })
	bySlot := make(map[int][]permitHeld)
	for _, p := range all {
		if p.slot < 0 || p.slot >= testPermits {
			faults = append(faults, fmt.Sprintf("there is no slot %d", p.slot))
		}
		bySlot[p.slot] = append(bySlot[p.slot], p)
	}
	for _, slot := range slices.Sorted(maps.Keys(bySlot)) {
		leases := bySlot[slot]
		for i := 1; i < len(leases); i++ {
			before, p := leases[i-1], leases[i]
			if p.from <= before.to {
				faults = append(faults, fmt.Sprintf("slot %d is held twice: %+v, %+v", slot, before, p))
			}
			if p.token <= before.token {
				faults = append(faults, fmt.Sprintf("tokens of slot %d do not increase: %+v, %+v", slot, before, p))
			}
		}
	}
	for i, p := range all { // at the instant at which each begins
		held := 1
		for j := range i {
			if all[j].to >= p.from {
				held++
			}
		}
		if held > testPermits {
			faults = append(faults, fmt.Sprintf("%d permits are held when this begins: %+v", held, p))
		}
	}
	return faults
}

func TestFaultsOfPermitsAreFound(t *testing.T) {
	t.Parallel()
	right := []permitHeld{{"a", 0, 5, 10, 20}, {"b", 1, 5, 12, 30}, {"c", 0, 6, 21, 22}, {"d", 2, 1, 11, 29}}
	require.Empty(t, faultsOfPermits(slices.Clone(right)))
	for want, wrong := range map[string]permitHeld{
		"there is no slot 3":    {"e", 3, 1, 50, 60},
		"slot 1 is held twice":  {"e", 1, 6, 30, 40},
		"tokens of slot 0":      {"e", 0, 6, 50, 60},
		"4 permits are held":    {"e", 3, 7, 19, 22},
		"there is no slot -1":   {"e", -1, 9, 50, 60},
		"2 do not increase: {o": {"e", 2, 0, 50, 60},
	} {
		assert.Contains(t, strings.Join(faultsOfPermits(append(slices.Clone(right), wrong)), "\n"), want)
	}
}

func readPermitsHeld(t *testing.T, file string) (all []permitHeld) {
	t.Helper()
	f, err := os.Open(file)
	require.NoError(t, err)
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		var p permitHeld
		_, err := fmt.Sscan(in.Text(), &p.owner, &p.slot, &p.token, (*int64)(&p.from), (*int64)(&p.to))
		require.NoError(t, err, in.Text())
		all = append(all, p)
	}
	return all
}

// usePermits is the job of a process: it takes permits again and again, and writes down when it had
// them.
func usePermits(args []string, lines <-chan string, _ func(string, ...any)) error {
	client, err := testclient.OpenInProcess(context.Background(), strings.Split(args[1], ","), redlock.WithTTL(tokensTTL),
		redlock.WithNodeTimeout(200*time.Millisecond), redlock.WithRestartGuard(tokensTTL), redlock.WithOwnerLabel(""))
	if err != nil {
		return err
	}
	defer client.Close()
	file, err := os.Create(args[0])
	if err != nil {
		return err
	}
	defer file.Close()
	ctx, cancel := untilInputEnds(lines)
	defer cancel()
	for ctx.Err() == nil {
		time.Sleep(rand.N(10 * time.Millisecond))
		s, takes := client.Semaphore("permits", testPermits), rand.N(20*time.Millisecond)
		switch rand.N(50) {
		case 0: // it is renewed
			takes = tokensTTL/2 + rand.N(tokensTTL)
		case 1: // it ends by itself, or nearly so
			s, takes = client.Semaphore("permits", testPermits, redlock.WithoutRenewal()), rand.N(2*tokensTTL)
		}
		acquire := s.Acquire
		if rand.N(3) == 0 {
			acquire = s.TryAcquire
		}
		lease, err := acquire(ctx, 1+rand.N(testPermits))
		if err != nil {
			continue // too few permits are free, too many servers fail, or the test is over
		}
		if from, to := watchLease(lease, takes); to > 0 {
			for _, slot := range lease.Slots() {
				if _, err := fmt.Fprintln(file, lease.Owner(), slot, lease.Token(), int64(from), int64(to)); err != nil {
					return err
				}
			}
		}
		_ = lease.Unlock(context.Background())
	}
	return nil
}

// watchLease keeps a lease for so long, or to its end. It returns the first and the last instant
// at which the lease is known to have been valid; 0 if there is none. The clock is read before the
// lease is asked: it was valid then too.
func watchLease(lease *redlock.Lease, takes time.Duration) (from, to time.Duration) {
	for end := time.Now().Add(takes); ; time.Sleep(min(takes, 5*time.Millisecond)) {
		now := chaos.Now()
		if !lease.Valid() {
			return from, to
		}
		if from == 0 {
			from = now
		}
		if to = now; !time.Now().Before(end) {
			return from, to
		}
	}
}
