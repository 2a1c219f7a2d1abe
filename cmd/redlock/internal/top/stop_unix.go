//go:build unix

package top

import (
	"os"
	"os/signal"
	"syscall"
	"time"
)

// jobSignals are those by which a shell stops a process, and lets it go on.
var jobSignals = []os.Signal{syscall.SIGTSTP, syscall.SIGCONT}

// isStop reports whether a signal asks the process to stop.
func isStop(s os.Signal) bool { return s == syscall.SIGTSTP }

// continuePatience bounds how long stopProcess waits to be continued. While the process is stopped no time
// counts; where it cannot be stopped, as without a shell that would continue it, it goes on after that.
const continuePatience = 200 * time.Millisecond

// stopProcess stops the process, with the others of its job, as Ctrl-Z does, and returns when it goes on.
func stopProcess() {
	goesOn := make(chan os.Signal, 1)
	signal.Notify(goesOn, syscall.SIGCONT)
	defer signal.Stop(goesOn)
	signal.Reset(syscall.SIGTSTP)
	_ = syscall.Kill(0, syscall.SIGTSTP)
	timer := time.NewTimer(continuePatience)
	defer timer.Stop()
	select {
	case <-goesOn:
	case <-timer.C:
	}
}
