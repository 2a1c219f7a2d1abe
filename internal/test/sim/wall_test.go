package sim

import (
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// Wall clocks: owners have what they show. No promise depends on them: they are hours apart, stand still, or
// were never set.

// simWall is what a client's wall clock shows at a true time.
type simWall func(at time.Duration) time.Time

// newWall draws the wall clock of a client. Those of most clients agree.
func (p *simPlan) newWall(client int) simWall {
	epoch := time.Unix(1_800_000_000, 0)
	random := mix(p.seed, uint64(client), textHash("wall clock"))
	switch off := time.Duration(random >> 8 % uint64(24*time.Hour)); random % 8 {
	case 0:
		return func(time.Duration) time.Time { return epoch } // it stands still
	case 1:
		return func(time.Duration) time.Time { return time.Time{} } // it was never set
	case 2, 3:
		return func(at time.Duration) time.Time { return epoch.Add(at + off - 12*time.Hour) }
	}
	return epoch.Add
}

// wallOf returns the wall clock of a client. It leads to nothing else of the run.
func (r *simRun) wallOf(client int) system.Wall {
	show, now := r.plan.newWall(client), r.world.Now
	return func() time.Time { return show(now()) }
}

// withWall replaces the wall clock.
func withWall(w system.Wall) redlock.Option { return testhook.WithWall(w).(redlock.Option) }

// checkSince checks that a lease says when its attempt began, by its client's wall clock. All attempts of a
// Resume have the owner of the first one.
func (v *simVisit) checkSince() {
	const rounding = 500*time.Millisecond + time.Microsecond
	show := v.history.plan.newWall(v.caller.client.index)
	from, to := show(v.began), show(v.began)
	if v.from != nil {
		from = show(v.called)
	}
	since := v.lease.Since()
	if from.IsZero() {
		from, to = time.Time{}, time.Time{}
	}
	if since.Before(from.Add(-rounding)) || since.After(to.Add(rounding)) || !since.Equal(protocol.SinceOf(v.lease.Owner())) {
		v.history.fail("%v's lease, token %d, says that it is held since %v, and it was asked for between %v and %v", v.caller, v.token, since, from, to)
	}
}
