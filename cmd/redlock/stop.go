package main

import (
	"errors"
	"fmt"
	"io/fs"
	"time"
)

const (
	// killPatience is how long SIGKILL may take: what is there afterwards runs as another
	// user, or waits in the kernel for a disk.
	killPatience = 2 * time.Second

	// maxLook bounds the time between two looks at a group whose leader has ended: a look
	// reads the state of every process of the machine.
	maxLook = 160 * time.Millisecond
)

// stop ends the command, whose lock is lost, and all of its group. It returns the exit code.
func (r *runner) stop(c *child, why error) error {
	kill := time.NewTimer(r.flags.grace)
	defer kill.Stop()
	if err := c.terminate(); errors.Is(err, fs.ErrPermission) {
		r.print("%v: cannot signal the command (operation not permitted): it goes on WITHOUT the lock; redlock "+
			"waits %v for its end", why, r.flags.grace)
	} else {
		r.print("%v: the command gets SIGTERM, and in %v SIGKILL", why, r.flags.grace)
	}
	if r.awaitEnd(c, kill.C) {
		return &exit{code: codeLost} // the message above says all
	}
	err := c.kill()
	if r.awaitEnd(c, time.After(killPatience)) {
		return &exit{code: codeLost}
	}
	if errors.Is(err, fs.ErrPermission) {
		return &exit{code: codeGoesOn,
			why: errors.New("processes of the command go on WITHOUT the lock: redlock may not signal them " +
				"(operation not permitted)")}
	}
	return &exit{code: codeGoesOn,
		why: fmt.Errorf("processes of the command go on WITHOUT the lock, %v after SIGKILL: they run as another "+
			"user, or wait for a disk", killPatience)}
}

// awaitEnd waits for the end of the command and of its group, and reports whether it came in time.
func (r *runner) awaitEnd(c *child, patience <-chan time.Time) bool {
	pause := 10 * time.Millisecond
	look := time.NewTimer(pause)
	defer look.Stop()
	for {
		select {
		case <-look.C:
			if c.gone() {
				return true
			}
			if c.ended() {
				pause = min(2*pause, maxLook)
			}
			look.Reset(pause)
		case sig := <-r.signals:
			r.handleAtEnd(c, sig)
		case sig := <-c.stops:
			r.letEnd(c, sig)
		case <-patience:
			return c.gone()
		}
	}
}
