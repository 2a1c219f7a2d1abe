package redlock

import "time"

// drift is the allowance for clocks that run at different rates: a node may
// count a ttl down faster than the client does.
type drift struct {
	factor float64       // share of the ttl
	base   time.Duration // added to it, for the granularity of expiry at the nodes
}

// of is the allowance for one ttl (Redlock specification: CLOCK_DRIFT).
func (d drift) of(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.factor) + d.base
}

// validUntil is the end of validity of a lease with the full ttl whose ballot began at
// start.
func (o *options) validUntil(start time.Duration) time.Duration { return o.validFor(start, o.ttl) }

// validFor is the end of validity of a lease whose ballot began at start:
// start + ttl − drift. start is read before anything is sent, so the oldest key
// that the ballot can have set expires later than that, at any node whose clock
// keeps within the allowance. (Redlock specification, step 3: the validity is
// the ttl minus the time elapsed since the first step, minus the drift.)
func (o *options) validFor(start, ttl time.Duration) time.Duration {
	return start + ttl - o.drift.of(ttl)
}
