//go:build unix

package main

import (
	"context"
	"os"
	"os/signal"
	"slices"
	"syscall"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Job control, as shells have it. The command has a process group of its own, and the foreground
// of the controlling terminal whenever the shell gives that to redlock's group. When the command
// stops, redlock takes the foreground back and stops too, since nothing may work while nobody
// renews the lock. When redlock is continued, it asks the nodes first.

// ofJobs are the signals of job control.
var ofJobs = []os.Signal{syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT}

// ignoredAtStart are those of them that redlock ignores from its start on: shells start command
// substitutions so. The command inherits that.
var ignoredAtStart = ignored(ofJobs)

// minConfirmRetry is the pause between two attempts to confirm the lock for a stopped command.
const minConfirmRetry = 100 * time.Millisecond

// jobs is the part that redlock's command has in the job control of its terminal.
type jobs struct {
	terminal int // a descriptor of the controlling terminal; -1 if there is none
	own      int // redlock's process group
	command  int // the command's process group, and the command itself, which leads it

	witness *witness
	asked   bool // redlock was asked to stop, and has asked the command to
}

func newJobs() jobs {
	fd, err := syscall.Open("/dev/tty", syscall.O_RDWR|syscall.O_CLOEXEC, 0)
	if err != nil {
		fd = -1
	}
	return jobs{terminal: fd, own: syscall.Getpgrp()}
}

// attributes makes the kernel put the command into a group of its own, and give that the foreground if redlock has it,
// before the command's program starts.
func (j *jobs) attributes() *syscall.SysProcAttr {
	a := &syscall.SysProcAttr{Setpgid: true}
	if j.hasForeground(j.own) {
		a.Foreground, a.Ctty = true, j.terminal
	}
	parentDeath(a)
	return a
}

// hasForeground reports whether a group has the terminal's foreground.
func (j *jobs) hasForeground(group int) bool {
	if j.terminal < 0 {
		return false
	}
	now, err := foreground(j.terminal)
	return err == nil && now == group
}

// pass passes the foreground from one group to another, and reports whether the first one had it.
func (j *jobs) pass(from, to int) bool {
	if !j.hasForeground(from) {
		return false
	}
	// The kernel stops a group in the background that changes the foreground, unless it ignores SIGTTOU.
	signal.Ignore(syscall.SIGTTOU)
	_ = unix.IoctlSetPointerInt(j.terminal, unix.TIOCSPGRP, to)
	return true
}

// give passes redlock's foreground to the command, and reports whether redlock had it.
func (r *runner) give(c *child) bool {
	defer r.listenForJobs()
	return c.jobs.pass(c.jobs.own, c.jobs.command)
}

// take takes the foreground from the command, and reports whether the command had it.
func (r *runner) take(c *child) bool {
	defer r.listenForJobs()
	return c.jobs.pass(c.jobs.command, c.jobs.own)
}

// begin does what follows the command's start. The witness starts behind the command: a broadcast
// between the two reaches the command twice. The other way round it would never reach it.
func (j *jobs) begin(command int) {
	j.command = command
	if j.terminal < 0 {
		j.witness = newWitness()
	}
}

// end takes the foreground back from a command that has ended: a script goes on with it.
func (j *jobs) end() {
	j.witness.end()
	if j.terminal < 0 {
		return
	}
	if now, err := foreground(j.terminal); err == nil && (now == j.command || syscall.Kill(-now, 0) == syscall.ESRCH) {
		j.pass(now, j.own)
	}
	_ = syscall.Close(j.terminal)
}

// listenForJobs lets redlock receive the signals of job control.
func (r *runner) listenForJobs() {
	for _, sig := range ofJobs {
		if !slices.Contains(ignoredAtStart, sig) {
			signal.Notify(r.signals, sig)
		}
	}
}

// handle forwards a signal to the command, or does redlock's part of job control.
func (r *runner) handle(c *child, sig os.Signal) error {
	switch sig {
	case syscall.SIGCONT:
		return r.goOn(c)
	case syscall.SIGTSTP:
		r.askToStop(c)
	case syscall.SIGTTIN, syscall.SIGTTOU:
		if !r.share(c) { // the whole job is in the background, and stops
			r.askToStop(c)
		}
	default:
		r.forward(c, sig)
	}
	return nil
}

// share gives the foreground to a process beside redlock that has asked for the terminal, such as a
// pager that reads from redlock. It returns false if the command does not have the foreground either.
func (r *runner) share(c *child) bool {
	if !c.jobs.hasForeground(c.jobs.own) && !r.take(c) {
		return false
	}
	signal.Ignore(syscall.SIGCONT)
	_ = syscall.Kill(0, syscall.SIGCONT) // the kernel has stopped all others
	r.listenForJobs()
	return true
}

// askToStop asks the command to stop; redlock stops when it has. It may refuse to.
func (r *runner) askToStop(c *child) {
	c.jobs.asked = true
	_ = c.send(syscall.SIGTSTP) // a command that may not be signalled goes on, and so does redlock
}

// forward forwards a signal, unless its sender has sent it to the command as well.
func (r *runner) forward(c *child, sig os.Signal) {
	if c.jobs.witness.saw(sig) {
		c.jobs.witness = newWitness()
		return
	}
	if err := c.forward(sig); err != nil {
		r.print("cannot send the command %s: %v", unix.SignalName(sig.(syscall.Signal)), err)
	}
}

// stopped handles a stop of the command:
//   - A command that lacks the terminal gets it, if redlock has it, and goes on.
//   - If Ctrl-Z stopped the command, or it lacks a terminal that redlock lacks too, redlock stops as well.
//   - If another process stopped the command in the background, as by SIGSTOP, redlock still renews the lock: that
//     process may continue the command without a word to redlock.
//
// It returns why the command must end, or nil.
func (r *runner) stopped(c *child, sig os.Signal) error {
	needsTerminal := sig == syscall.SIGTTIN || sig == syscall.SIGTTOU
	asked := c.jobs.asked
	c.jobs.asked = false
	switch {
	case needsTerminal && r.give(c):
		_ = c.send(syscall.SIGCONT)
	case asked || needsTerminal || c.jobs.hasForeground(c.jobs.command):
		return r.suspend(c, sig.(syscall.Signal))
	}
	return nil
}

// suspend stops redlock, and the others of its group as the terminal would, until a shell continues
// them. SIGSTOP makes sure that no child of the command works meanwhile.
func (r *runner) suspend(c *child, sig syscall.Signal) error {
	_ = c.send(syscall.SIGSTOP)
	r.take(c)
	if sig == syscall.SIGSTOP { // of programs that stop themselves so
		sig = syscall.SIGTSTP
	}
	switch {
	case canBeContinued(c.jobs.own) && !slices.Contains(ignoredAtStart, os.Signal(sig)):
		signal.Ignore(sig, syscall.SIGCONT) // of SIGCONT: goOn follows anyway
		_ = syscall.Kill(0, sig)
		stopSelf(sig)
		r.listenForJobs()
	case sig != syscall.SIGTSTP:
		_ = c.send(syscall.SIGHUP) // it would wait for the terminal for ever
	}
	return r.goOn(c)
}

// goOn continues the command, when a quorum has confirmed the lock: another holder may have it by
// now. It returns why the command must end instead.
func (r *runner) goOn(c *child) error {
	c.jobs.asked = false
	for r.lease.Extend(context.Background()) != nil {
		if why := r.mustEnd(); why != nil {
			return why
		}
		time.Sleep(minConfirmRetry)
	}
	again := false
	for len(r.signals) > 0 { // one that ends the command comes before it works again
		switch sig := <-r.signals; sig {
		case syscall.SIGTSTP:
			again = true
		case syscall.SIGCONT, syscall.SIGTTIN, syscall.SIGTTOU:
		default:
			r.forward(c, sig)
		}
	}
	r.give(c)
	_ = c.send(syscall.SIGCONT)
	if again {
		r.askToStop(c)
	}
	return nil
}

// canBeContinued reports whether a shell looks after redlock's group: it leads the session from a
// group of its own. Else nothing would continue a redlock that stops.
func canBeContinued(own int) bool {
	session, err := unix.Getsid(0)
	if err != nil {
		return false
	}
	leaders, err := syscall.Getpgid(session)
	parents, err2 := unix.Getsid(os.Getppid())
	return err == nil && err2 == nil && leaders != own && parents == session
}

// handleAtEnd forwards a signal to a command that has been told to end. It can no longer stop.
func (r *runner) handleAtEnd(c *child, sig os.Signal) {
	switch sig {
	case syscall.SIGTSTP, syscall.SIGCONT:
	case syscall.SIGTTIN, syscall.SIGTTOU:
		r.share(c)
	default:
		r.forward(c, sig)
	}
}

// letEnd continues a command that stopped after it was told to end, in the foreground if it needs that.
func (r *runner) letEnd(c *child, sig os.Signal) {
	if (sig != syscall.SIGTTIN && sig != syscall.SIGTTOU) || r.give(c) {
		_ = c.send(syscall.SIGCONT)
	}
}

// passInterrupt passes an interrupt from the terminal, which has ended the command, on to redlock's
// group: so a script that runs redlock ends too. redlock itself ends by it at last.
func (r *runner) passInterrupt(c *child) {
	if c.jobs.terminal < 0 || c.by != syscall.SIGINT && c.by != syscall.SIGQUIT {
		return
	}
	if c.jobs.hasForeground(c.jobs.command) {
		_ = syscall.Kill(0, c.by.(syscall.Signal)) // redlock receives it, and ends later
	}
	r.by = c.by
}

// endBy ends redlock by an interrupt, as which shells know that their script or loop must end. It
// returns where that cannot be: as process 1.
func endBy(sig os.Signal) {
	if sig != syscall.SIGINT || os.Getpid() == 1 { // Go's runtime prints all stacks at SIGQUIT
		return
	}
	signal.Reset(sig)
	_ = syscall.Kill(os.Getpid(), syscall.SIGINT)
	time.Sleep(time.Second) // another thread may handle it
}

// foreground returns the group that has the foreground of a terminal.
func foreground(terminal int) (int, error) {
	// The kernel writes 32 bits, on some machines into the upper half.
	value, err := unix.IoctlGetInt(terminal, unix.TIOCGPGRP)
	return int(*(*int32)(unsafe.Pointer(&value))), err
}
