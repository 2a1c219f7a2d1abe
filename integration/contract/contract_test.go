package contract

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// promises are what the contract consists of. Each gets a cluster of its own.
var promises = []struct {
	name  string
	nodes int
	keep  func(s scene)
}{
	{"acquire, renew, release", 3, acquireRenewRelease},
	{"without tokens", 3, withoutTokens},
	{"wait and hand-off", 3, waitAndHandOff},
	{"a waiter gives up", 3, waiterGivesUp},
	{"readers", 3, readers},
	{"permits", 3, permits},
	{"several names", 3, severalNames},

	{"a minority is down", 5, minorityIsDown},
	{"a minority is frozen", 5, minorityIsFrozen},
	{"a minority is cut off", 5, minorityIsCutOff},
	{"a master restarts", 3, masterRestarts},
	{"a master is wiped", 3, masterIsWiped},
	{"a master forgets its scripts", 3, masterForgetsItsScripts},

	{"no orphan of a lost answer", 3, noOrphanOfALostAnswer},
	{"no orphan of a frozen majority", 3, noOrphanOfAFrozenMajority},
	{"no orphan of a release while cut off", 3, noOrphanOfAReleaseWhileCutOff},
	{"no orphan after Close", 3, noOrphanAfterClose},

	{"the user of the docs", 3, userOfTheDocs},
	{"a wrong password", 3, wrongPassword},
	{"cluster mode", 0, clusterMode},
}

func TestContract(t *testing.T) {
	kinds, err := cluster.Kinds()
	require.NoError(t, err)
	for _, kind := range kinds {
		t.Run(kind.Name, func(t *testing.T) {
			t.Parallel()
			for _, c := range clients {
				t.Run(c.name, func(t *testing.T) {
					t.Parallel()
					for _, p := range promises {
						t.Run(p.name, func(t *testing.T) {
							t.Parallel()
							p.keep(scene{t, kind, kind.Use(t, p.nodes), c.open})
						})
					}
				})
			}
		})
	}
}
