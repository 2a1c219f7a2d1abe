//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// notifyContinued sends SIGCONT to a channel, by which a shell lets a stopped process go on. SIGTSTP must not be
// handled: once it is, it does not stop the process any more, not even after signal.Reset.
func notifyContinued(signals chan<- os.Signal) { signal.Notify(signals, syscall.SIGCONT) }

// continuePatience bounds how long stopProcess waits to be continued. While the process is stopped no time
// counts; where it cannot be stopped, as without a shell that would continue it, it goes on after that.
const continuePatience = 200 * time.Millisecond

// stopProcess stops the process, with the others of its job, as Ctrl-Z does, and returns when it goes on. signals
// is that of notifyContinued; it receives nothing meanwhile.
func stopProcess(signals chan<- os.Signal) {
	signal.Stop(signals)
	defer notifyContinued(signals)
	goesOn := make(chan os.Signal, 1)
	notifyContinued(goesOn)
	defer signal.Stop(goesOn)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	timer := time.NewTimer(continuePatience)
	defer timer.Stop()
	select {
	case <-goesOn:
	case <-timer.C:
	}
}
