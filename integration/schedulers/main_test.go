// Package schedulers tests schedulers of several processes that share their jobs by locks over five real Redis servers, while
// processes and servers are killed and stopped: gocron with module redlockgocron, and asynq with module redlockasynq.
//
// # What is promised
//
// A tick is a scheduled time: a whole number of periods since 1970, by the clock of the process that runs it. The processes'
// clocks differ. A process that is stopped (SIGSTOP) and goes on later may run a tick late, or finish it late. Yet each tick is run at
// most once, always. And a tick is missed only near a fault that explains it (trial.explained):
//
//   - With a lock for each run: a process was struck while it was about to take the lock of that tick, or to run it; or
//     while it had the lock of an earlier tick, whose keys stay for a ttl; or went on, and got a lock too late, which then rests for
//     the minimum hold.
//   - With a leader: the leader was struck, until another one is elected.
//
// A fault of a server explains a miss in two cases only. A server that was stopped executes the last request of a process that was
// killed meanwhile, when it goes on: then that key stays for a ttl from there (strike.keysEnd). And a leader loses its lease if two servers are struck at
// a time while a third one has such a key (trial.lossExplains).
//
// Of asynq more is promised: each tick's task is enqueued once, and none is missed (TestEachTickIsEnqueuedOnceWhateverFails).
//
// The same schedule over redsync on one server, which is what gocron's own Redis locker is, is reported beside it, and not judged.
package schedulers

import (
	"flag"
	"os"
	"testing"

	"github.com/redlock-go/redlock/integration/cluster"
)

func TestMain(m *testing.M) {
	if os.Getenv(processEnv) != "" {
		os.Exit(runProcess())
	}
	flag.Parse()
	if err := cluster.SetParallel(5); err != nil { // most of them sleep for most of their time
		panic(err)
	}
	os.Exit(cluster.Main(m))
}
