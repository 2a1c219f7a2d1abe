package redlock

import "time"

// drift is the allowance for clocks that run at different rates: a node may count a ttl down
// faster than the client does.
type drift struct {
	factor float64       // share of the ttl
	base   time.Duration // added to it, for the granularity of expiry at the nodes
}

// of returns the allowance for one ttl (Redlock specification: CLOCK_DRIFT).
func (d drift) of(ttl time.Duration) time.Duration {
	return time.Duration(float64(ttl)*d.factor) + d.base
}

// validity returns the longest validity of a lease whose keys last for ttl, from the start of
// its ballot: ttl − drift. The start is read before anything is sent, so the oldest key that
// the ballot can have set expires later than that, at any node whose clock keeps within the
// allowance. (Redlock specification, step 3: the validity is the ttl minus the time elapsed
// since the first step, minus the drift.)
func (d drift) validity(ttl time.Duration) time.Duration { return ttl - d.of(ttl) }
