package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

// runFlags are those of redlock run.
type runFlags struct {
	read       bool
	ttl        time.Duration
	wait       time.Duration
	noWait     bool
	quiet      bool
	grace      time.Duration
	stopBefore time.Duration
}

// runHelp is the help of redlock run, and a part of its manual.
const runHelp = `run takes the lock NAME, runs COMMAND, and releases the lock when COMMAND ends. While
it runs the lock is renewed. By default run waits as long as somebody else holds the lock
or too few nodes answer: give --wait or --no-wait in cron.

With --read it takes a share of the lock. Any number of commands with --read run at the
same time; one without --read, a writer, runs alone. All stand in one wait queue: a
command with --read that comes after a waiting writer waits behind it, and with --no-wait
it fails.

COMMAND finds in its environment REDLOCK_NAME, REDLOCK_OWNER (the value that marks
this lease at the nodes) and REDLOCK_TOKEN (the fencing token: greater than that of
every earlier holder; with --read not less than that of every earlier writer). Pass the
token to the resource that the lock protects, if that can compare numbers: it then refuses
a holder that comes too late. Where commands run with --read, it must keep two numbers (the
README, Fencing).

When renewals fail, or the lock was taken away, COMMAND gets SIGTERM, and SIGKILL
--grace later if it is still there; both go to its process group, so to its children
too. If renewals fail, SIGTERM comes --stop-before the end of the lock's validity: with
the defaults the command has ended, by SIGKILL if necessary, before others can get the
lock. With --stop-before 0, or a grace longer than that, it may go on for the grace while
somebody else holds the lock; the same may happen after a sudden loss (somebody deleted
the keys, or this machine was suspended). Only the token protects you then.

The lock is released when COMMAND itself has ended. Processes that it left in the
background go on without the lock: let COMMAND wait for them.

A lock keeps two commands from running at the same time; it does not count how often they
ran: a job that takes a second may run again on a machine whose clock is two seconds late.
If it must run once, let it hold the lock for longer than clocks differ (as nightly does
below), or record in its own data that it is done.

If redlock itself is killed (SIGKILL), nobody renews, and the lock ends with its ttl. On
Linux COMMAND gets SIGTERM then; its children do not, and on other systems COMMAND goes
on. After the ttl it runs without the lock. A redlock that is stopped (SIGSTOP) does not
renew either.

redlock forwards SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH and SIGCONT
to COMMAND's process group. If stdin is a terminal, COMMAND stays in redlock's own group,
so that it can read and Ctrl-C and Ctrl-Z work as usual: then redlock signals COMMAND
alone, not its children. On Windows there are no such signals: COMMAND is killed at once.`

// runExamples are the examples in the same help.
const runExamples = `  redlock run backup -- /usr/local/bin/backup --full
  redlock run backup --no-wait -- backup           # 75 if somebody else runs it
  redlock run deploy --wait 5m -- make deploy      # give up after five minutes
  redlock run nightly --no-wait -- sh -c 'nightly; r=$?; sleep 60; exit $r'
  redlock run report --ttl 1m --grace 10s -- report
  redlock run --read catalog -- export-catalog     # beside others that read it
  redlock run row-7 -- sh -c 'psql -v token=$REDLOCK_TOKEN -f change.sql'`

func newRun(s *settings) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:     "run NAME [flags] -- COMMAND [ARGUMENT...]",
		Short:   "Run a command under a lock",
		Long:    runHelp,
		Example: runExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			return f.run(cmd, s, args[0], args[1:])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.read, "read", false, "hold a share of the lock, together with other commands that run with --read")
	flags.DurationVar(&f.ttl, "ttl", 10*time.Second, "how long the lock outlives a redlock that was killed, and can go without renewals")
	flags.DurationVar(&f.wait, "wait", 0, "wait this time at most for the lock (default without limit)")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait for a holder: fail at once")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing if somebody else holds the lock: the exit code shows it")
	flags.DurationVar(&f.grace, "grace", 0, "time between SIGTERM and SIGKILL (default three tenths of the ttl)")
	flags.DurationVar(&f.stopBefore, "stop-before", 0, "send SIGTERM when renewals fail and this much validity is left; 0: when none is left (default the grace, at most a third of the ttl)")
	return cmd
}

// check checks the flags, and sets those that were not given.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return usage("run needs a lock's name and a command: redlock run NAME -- COMMAND")
	case dash != 1:
		return usage("write -- between the lock's name and the command: redlock run %s -- COMMAND", args[0])
	case len(args) == 1:
		return usage("there is no command after --")
	case f.noWait && given("wait"):
		return usage("--wait and --no-wait exclude each other")
	case given("wait") && f.wait <= 0:
		return usage("--wait %v: it must be above 0; use --no-wait not to wait at all", f.wait)
	case f.grace < 0 || f.stopBefore < 0:
		return usage("--grace and --stop-before must not be negative")
	}
	if !given("grace") {
		f.grace = f.ttl * 3 / 10
	}
	if !given("stop-before") {
		f.stopBefore = min(f.grace, f.ttl/3)
	}
	if f.stopBefore > f.ttl/2 {
		return usage("--stop-before %v: it must be at most half of the ttl (%v), or a renewal would always come too late", f.stopBefore, f.ttl)
	}
	return nil
}

// run returns the command's exit code as an *exit, or why it was not run, or was stopped.
func (f *runFlags) run(cmd *cobra.Command, s *settings, name string, command []string) error {
	path, err := findCommand(command[0])
	if err != nil {
		return err
	}
	r := &runner{flags: f, log: cmd.ErrOrStderr()}
	client, err := s.open(cmd, redlock.WithTTL(f.ttl))
	if err != nil {
		return err
	}
	defer client.Close()

	r.signals = make(chan os.Signal, 16)
	for _, sig := range forwarded() {
		if !signal.Ignored(sig) { // nohup, and background jobs of scripts
			signal.Notify(r.signals, sig)
		}
	}
	defer signal.Stop(r.signals)
	if err := notNested(cmd.Context(), client, name); err != nil {
		return err
	}
	if r.lease, err = r.acquire(client, name, isTerminal(r.log)); err != nil {
		if f.quiet && errors.Is(err, redlock.ErrHeld) {
			return &exit{code: codeHeld}
		}
		return coded(err)
	}
	code, err := r.work(path, command)
	switch end := r.lease.Unlock(context.Background()); {
	case err != nil || end == nil:
	case errors.Is(end, redlock.ErrLost):
		err = &exit{code: codeLost, why: fmt.Errorf("the command has ended, but the lock was lost before, and somebody else may have held it meanwhile: %s", lossOf(end))}
	default:
		r.print("the release was not confirmed by a majority, so the lock may stay held for up to %v: %v", f.ttl, end)
	}
	switch {
	case err != nil:
		return coded(err)
	case code != 0:
		return &exit{code: code}
	}
	return nil
}

// notNested returns an error if the process's own parent holds the lock, or a share of it:
// this process would wait for itself. A second share would be granted at once, but not while
// a writer waits for the first.
func notNested(ctx context.Context, client *redlock.Client, name string) error {
	owner := os.Getenv("REDLOCK_OWNER")
	if owner == "" || os.Getenv("REDLOCK_NAME") != name {
		return nil
	}
	s, err := client.Inspect(ctx, name)
	isReader := slices.ContainsFunc(holdingReaders(s), func(r redlock.Reader) bool { return r.Owner == owner })
	if err == nil && (s.Holder == owner || isReader) {
		return usage("this command already runs under the lock %q: it would wait for itself", name)
	}
	return nil
}

// runner runs one command under one lease.
type runner struct {
	flags   *runFlags
	lease   *redlock.Lease
	signals chan os.Signal
	log     io.Writer

	mu sync.Mutex // protects writes to log
}

func (r *runner) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.log, "redlock: %s\n", printable.Line(fmt.Sprintf(format, args...)))
}

// mutex returns the side of the lock that the command is to hold.
func (f *runFlags) mutex(client *redlock.Client, name string) *redlock.Mutex {
	if f.read {
		return client.RWMutex(name).RLocker()
	}
	return client.Mutex(name)
}

// errWaited ends the wait when the time of --wait is over.
var errWaited = errors.New("the time of --wait is over")

// interrupted is a signal that ended the wait.
type interrupted struct{ sig os.Signal }

func (e *interrupted) Error() string { return "ended by signal: " + e.sig.String() }

// acquire takes the lock, within the time that the flags allow. A signal ends the wait. If
// announce is set, a message says what redlock waits for.
func (r *runner) acquire(client *redlock.Client, name string, announce bool) (*redlock.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	bounded := ctx
	if r.flags.wait > 0 {
		var stop context.CancelFunc
		bounded, stop = context.WithTimeoutCause(ctx, r.flags.wait, errWaited)
		defer stop()
	}
	var beside sync.WaitGroup
	over := make(chan struct{})
	beside.Go(func() { r.cancelOnSignal(over, cancel) })
	if announce && !r.flags.noWait {
		beside.Go(func() { r.announce(bounded, over, client, name) })
	}
	lock := r.flags.mutex(client, name).Lock
	if r.flags.noWait {
		lock = r.flags.mutex(client, name).TryLock
	}
	lease, err := lock(bounded)
	for err == nil && !r.awaitValidity(lease) {
		lease, err = lock(bounded)
	}
	close(over)
	beside.Wait()

	var end *interrupted
	switch {
	case errors.As(context.Cause(ctx), &end):
		if lease != nil { // both at once
			_ = lease.Unlock(context.Background())
		}
		return nil, &exit{code: signalCode(end.sig), why: fmt.Errorf("waiting for %q: %w", name, end)}
	case errors.Is(err, errWaited) && !errors.Is(err, redlock.ErrHeld):
		return nil, &exit{code: codeNoQuorum, why: err}
	}
	return lease, err
}

// awaitValidity waits until more validity is left than --stop-before: a lease that was
// handed over is short until its first renewal. It returns false if the lease was lost.
func (r *runner) awaitValidity(lease *redlock.Lease) bool {
	for lease.Remaining() <= r.flags.stopBefore {
		select {
		case <-lease.Done():
			return false
		case <-time.After(time.Millisecond): // it renews itself
		}
	}
	return true
}

// cancelOnSignal cancels the wait at a signal that asks redlock to end.
func (r *runner) cancelOnSignal(over <-chan struct{}, cancel context.CancelCauseFunc) {
	for {
		select {
		case sig := <-r.signals:
			if asksToEnd(sig) {
				cancel(&interrupted{sig})
			}
		case <-over:
			return
		}
	}
}

// announce prints what redlock waits for.
func (r *runner) announce(ctx context.Context, over <-chan struct{}, client *redlock.Client, name string) {
	select {
	case <-time.After(500 * time.Millisecond):
	case <-over:
		return
	}
	s, err := client.Inspect(ctx, name)
	readers := holdingReaders(s)
	switch {
	case err != nil:
		r.print("waiting for %q: %v", name, err)
	case s.Holder != "":
		r.print("waiting for %q: %s holds it, %d in the wait queue", name, printable.Quote(readableOwner(s.Holder)), len(s.Queue))
	case len(readers) == 1:
		r.print("waiting for %q: 1 reader holds it, %d in the wait queue", name, len(s.Queue))
	case len(readers) > 1:
		r.print("waiting for %q: %s hold it, %d in the wait queue", name, countReaders(s), len(s.Queue))
	default:
		r.print("waiting for %q: nobody holds it, but too few nodes may vote yet, or another waiter comes first", name)
	}
}
