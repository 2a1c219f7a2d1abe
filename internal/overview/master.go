package overview

import "time"

// Master is a node of the cluster. Its texts are safe to print.
type Master struct {
	Index  int
	Node   string // its name in errors and logs, with the address
	State  string // as redlock.NodeStats: "up", "stalled", "quarantined", "down", "unfit"
	Level  Level
	Since  time.Time // when the model saw the state first; of the first state, when it began to look
	Cause  string    // why it is not up; "" if it is
	Remedy string    // what to do, in a sentence; "" if it is up
	Anchor string    // of the section in docs/operations.md; "" if it is up

	// RoundTrip is that of the last Ping, if a Trips was given; 0: not known.
	RoundTrip time.Duration
}
