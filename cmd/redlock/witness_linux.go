package main

import (
	"os"
	"os/exec"
	"syscall"
	"time"
)

// broadcastPatience bounds the time between the signals that a broadcast sends to two processes.
const broadcastPatience = 200 * time.Millisecond

// witness is a process that sleeps beside the command, in a unit of systemd. By default systemd sends a
// signal to every process of the unit. Then the witness gets it too, and the command needs no second one.
type witness struct {
	cmd  *exec.Cmd
	over chan struct{} // closed when it has ended
}

// newWitness starts a witness. It returns nil where no unit of systemd is, or nothing that sleeps.
func newWitness() *witness {
	if os.Getenv("INVOCATION_ID") == "" || os.Getpid() == 1 {
		return nil
	}
	w := &witness{cmd: exec.Command("sleep", "infinity"), over: make(chan struct{})}
	w.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
	if w.cmd.Start() != nil {
		return nil
	}
	go func() { // ends with the process
		_ = w.cmd.Wait()
		close(w.over)
	}()
	return w
}

// saw reports whether a signal that redlock has received has ended the witness.
func (w *witness) saw(sig os.Signal) bool {
	if w == nil {
		return false
	}
	await(w.over, broadcastPatience)
	select {
	case <-w.over:
		status, ok := w.cmd.ProcessState.Sys().(syscall.WaitStatus)
		return ok && status.Signaled() && status.Signal() == sig
	default:
		return false
	}
}

func (w *witness) end() {
	if w != nil {
		_ = w.cmd.Process.Kill()
		<-w.over
	}
}
