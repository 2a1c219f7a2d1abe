package main

import (
	"context"
	"fmt"
	"runtime"
	"time"

	"github.com/redlock-go/redlock"
)

const renewTTL = 3 * time.Second

// renewCost is what many leases cost that renew themselves.
type renewCost struct {
	leases     int
	goroutines int
	lost       int
	renewals   int   // at the nodes, in the time measured, about
	writes     int64 // write system calls of this process meanwhile; 0 if not known
}

// holdRenewing holds so many renewing leases for a while.
func holdRenewing(ctx context.Context, addrs []string, count, ttls int) (*renewCost, error) {
	p, err := openRedlock(addrs, redlock.WithTTL(renewTTL), redlock.WithRestartGuard(0))
	if err != nil {
		return nil, err
	}
	defer p.close()
	leases := make([]held, count)
	err = each(count, func(i int) (err error) {
		leases[i], err = p.lock(ctx, fmt.Sprintf("renew/%d", i))
		return err
	})
	if err != nil {
		return nil, err
	}
	before := writeCalls()
	spent := time.Duration(ttls) * renewTTL
	select {
	case <-time.After(spent):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	cost := &renewCost{
		leases:     count,
		goroutines: runtime.NumGoroutine(),
		renewals:   count * len(addrs) * int(spent/(renewTTL/3)),
		writes:     writeCalls() - before,
	}
	for _, l := range leases {
		if !l.(*redlock.Lease).Valid() {
			cost.lost++
		}
	}
	return cost, each(count, func(i int) error { return leases[i].Unlock(ctx) })
}

func renewChecks(c *renewCost) []check {
	checks := []check{{
		what:   fmt.Sprintf("goroutines while %d leases renew", c.leases),
		figure: fmt.Sprint(c.goroutines),
		target: fmt.Sprintf("< %d", maxGoroutines),
		met:    c.goroutines < maxGoroutines,
	}, {
		what:   fmt.Sprintf("leases lost of %d that renew", c.leases),
		figure: fmt.Sprint(c.lost),
		target: "0",
		met:    c.lost == 0,
	}}
	if c.writes > 0 {
		share := float64(c.writes) / float64(c.renewals)
		checks = append(checks, check{
			what:   "write calls for each renewal at a node",
			figure: fmt.Sprintf("%.3f", share),
			target: fmt.Sprintf("<= %.2f", maxWritesPerRenewal),
			met:    share <= maxWritesPerRenewal,
		})
	}
	return checks
}
