package sim

import (
	"regexp"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of the seeds that nobody has seen, one in some two thousand fails, and nearly always in being slow:
// some bound that the checks set is too narrow for what happened there. Such a seed needs a look, and
// is no reason to refuse a change. With -sim.fresh the run goes on, and passes. All else fails it: two
// holders, tokens, losses, what is left behind, and every check that is not listed here.

// simSlow are the violations that say that something took too long.
var simSlow = []*regexp.Regexp{
	regexp.MustCompile(`^nobody had `),                                                                                                                 // progress, and how long dead waiters keep a lock
	regexp.MustCompile(`^client \S+, which asked for .*, was passed by \d+ later ones$`),                                                               // order
	regexp.MustCompile(`^client \S+ is not served when all trouble is over: `),                                                                         // service
	regexp.MustCompile(`^node \d+ was in quarantine from .*, though client \d+ could admit it from `),                                                  // admission
	regexp.MustCompile(`^the burst of \d+ calls of client \d+: (\d+ did not end in time: |none got its lock$|\d+ attempts were in vain, of at most )`), // burst
	regexp.MustCompile(`^client \S+'s lease, token \d+, was not told until `),                                                                          // told
	regexp.MustCompile(`^client \d+'s Close took `),                                                                                                    // close
}

// areSlow reports whether all violations of a run say that something took too long.
func areSlow(wrong []string) bool {
	isOther := func(text string) bool {
		return !slices.ContainsFunc(simSlow, func(slow *regexp.Regexp) bool { return slow.MatchString(text) })
	}
	return !slices.ContainsFunc(wrong, isOther)
}

func TestOnlySlowSeedsDoNotFailAFreshRun(t *testing.T) {
	slow := []string{
		"nobody had lock-0 (alone, or before a reader: false) for 9s, from 7s on, while client 1.2 waited for lock-0, for whom a majority was well",
		"client 1.2, which asked for lock-0 at 3s, was passed by 4 later ones",
		"client 1 is not served when all trouble is over: context deadline exceeded",
		"node 2 was in quarantine from 3s to 30s, though client 0 could admit it from 4s to 30s",
		"the burst of 178 calls of client 0: 3 did not end in time: Lock within 1s, TryLock within 2s",
		"the burst of 178 calls of client 0: none got its lock",
		"the burst of 178 calls of client 0: 22 attempts were in vain, of at most 8",
		"client 1.2's lease, token 7, was not told until 3s (told: 0s) that client 0 waits for lock-0 since 1s",
		"client 1's Close took 201.6ms",
	}
	wrong := []string{
		"two holders of lock-0: client 1 (token 7) until 3s, alone until 3s, client 2 (token 8) from 2s, alone until 5s",
		"token 7 of client 1, granted at 3s, after token 8 of client 2, granted at 2s",
		"node 1 still has redlock:lock-0 = \"A\", for 3s",
		"client 1 died 3s ago, and node 1 still has redlock:lock-0 = \"A\", for 3s",
		"client 1 is closed, and node 1 still has redlock:lock-0 = \"A\", for 3s",
		"client 1's keys were deleted at 3s; its lease went on until 9s",
		"client 1's lease, token 7, had ended and is valid again",
		"client 1's lease, token 7, excludes readers at 2 nodes after its downgrade",
		"client 1's lease of 2 permits, token 7, was lost at 3s without a cause: nobody had it",
		"the burst of 178 calls of client 0: client 0's lease of 0 permits, token 7, was lost at 3s without a cause: lost",
		"the transfer of lock-0 by client 1 at 3s, token 7: client 2 did not resume it at 4s, though all nodes were well: lost",
		"the minimum hold of lock-0 until 3s, of the lease of client 1 (token 7), granted at 1s, was not over when client 2 (token 8) got it at 2s",
		"the lock delay of lock-0 until 3s, after the lease of client 1 (token 7), was not over when client 2 (token 8) got it at 2s",
		"node 1 gave the key of \"A\" to \"B\" for a renewal",
		"client 1 reached a ballot that was given back",
		"the script acquire fails at node 1: ERR",
		"a check that is new",
	}
	for _, text := range slow {
		require.True(t, areSlow([]string{text}), text)
	}
	for _, text := range wrong {
		require.False(t, areSlow([]string{text}), text)
		require.False(t, areSlow([]string{slow[0], text}), "not even beside what is slow: %s", text)
	}
	require.True(t, areSlow(slow))
}
