package main

import (
	"errors"

	"github.com/redlock-go/redlock/internal/overview"
)

var errSentinel = errors.New("it is a sentinel, which has no locks")

// judgeSilence reports a node that does not answer, or only by an error.
func (x *examination) judgeSilence(f *nodeFacts) {
	c := causeOf(f.err, f.Answers)
	what := c.What
	if !errors.Is(f.err, errSentinel) {
		what += ": " + f.err.Error()
	}
	x.add(danger, c.Code, f.Node, what, c.Consequence, c.Remedy)
}

// causeOf is overview.CauseOf, for a sentinel too: clients do not know one by its error.
func causeOf(err error, answered bool) overview.Cause {
	if errors.Is(err, errSentinel) {
		return overview.Cause{Code: "sentinel", What: err.Error(), Consequence: overview.NeverVotes,
			Remedy: "give the master's own port: SENTINEL GET-MASTER-ADDR-BY-NAME shows it; better, use masters that " +
				"no sentinel watches"}
	}
	return overview.CauseOf(err, answered)
}
