package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

const (
	labelEnv = "REDLOCK_LABEL"
	maxLabel = 256 // bytes, as the library allows
)

// runFlags are those of redlock run.
type runFlags struct {
	read       bool
	permits    int
	take       int
	ttl        time.Duration
	minHold    time.Duration
	wait       time.Duration
	noWait     bool
	ready      time.Duration
	quiet      bool
	grace      time.Duration
	stopBefore time.Duration
	transfer   string
	label      string
	announce   bool
}

// runHelp is the help of redlock run, and a part of its manual.
const runHelp = `run takes the lock NAME, runs COMMAND, and releases the lock when COMMAND ends. While
it runs the lock is renewed. By default run waits as long as somebody else holds the lock
or too few nodes answer, and prints once what it waits for: give --wait or --no-wait in cron, and --ready.

With several names run takes the locks of all of them at once, in whatever order they are
given, and holds none of them while it waits. Each is the lock that run takes for that name
alone. Names must be different, and at most 32.

With --read it takes a share of the lock. Any number of commands with --read run at the
same time; one without --read, a writer, runs alone. All stand in one wait queue: a
command with --read that comes after a waiting writer waits behind it, and with --no-wait
it fails.

With --permits 3, NAME is a semaphore: as many as three commands run at the same time, each with one
of its three permits, or with several of them (--take). Give the same number everywhere. A
command that wants many is not passed by later ones that want few. REDLOCK_SLOTS has the numbers of its
permits, from 0, with spaces between (it is empty without --permits): no other command has one of them
at that time. The fencing token is greater than that of every earlier holder of the same slots. What the
permits protect must keep one number for each slot.

A run inside another run of the same lock would wait for itself, and fails (64); REDLOCK_OUTER, by which
it knows, has the locks of all runs around it.

COMMAND finds in its environment REDLOCK_NAME (several names with a comma and a space
between), REDLOCK_NAMES (each name on a line of its own), REDLOCK_OWNER (the value that
marks this lease at the nodes) and REDLOCK_TOKEN (the fencing token: greater than that of
every earlier holder of each name; with --read not less than that of every earlier
writer). Pass the token to the resource that the lock protects, if that can compare
numbers: it then refuses a holder that comes too late. Where commands run with --read, it
must keep two numbers (docs/reference/fencing.md).

When renewals fail, or the lock was taken away, COMMAND gets SIGTERM, and SIGKILL
--grace later if it is still there; both go to its process group, so to its children
too. If renewals fail, SIGTERM comes --stop-before the end of the lock's validity: with
the defaults the command has ended, by SIGKILL if necessary, before others can get the
lock. With --stop-before 0, or a grace longer than that, it may go on for the grace while
somebody else holds the lock. The same may happen after a sudden loss (by unlock --force, or
since the keys were deleted, or this machine was suspended): SIGTERM then comes with redlock's next
renewal at the latest. Only the token protects you then.

redlock must be allowed to signal COMMAND: write sudo redlock run NAME -- COMMAND, not redlock run
NAME -- sudo COMMAND. Else redlock cannot stop it after a loss: it says that COMMAND goes on WITHOUT
the lock, and exits with 77 when the grace is over.

The lock is released when COMMAND itself has ended. Processes that it left in the
background go on without the lock: let COMMAND wait for them.

A lock keeps two commands from running at the same time; it does not count how often they
ran: a job that takes a second may run again on a machine whose clock is two seconds late.
With --min-hold the lock stays taken until that time has passed since run got the lock,
however early COMMAND ends. run ends with COMMAND; from then on nobody holds the lock, and
nobody gets it. --min-hold is for one name, at most the ttl, and not for --read or --permits.
Choose it longer than clocks differ by. A run that starts late keeps the lock until later:
--min-hold and the longest delay together must be shorter than the time between two runs.
If redlock is killed, the lock ends with its ttl. If the job must run once whatever fails,
record in its own data that it is done.

Nodes that were restarted do not vote for the longest ttl of all clients, and for 20s if a majority was. That
time begins when a client looks, so a job at night finds no majority (69). With --ready 1m run first
waits for up to a minute until a majority votes, and never for a holder: --wait begins, and --no-wait
counts, after that. Choose it longer than these times. It is a delay, as above. A run that reached no
majority for more than half of its --min-hold does not run COMMAND (69): another machine may have run it
meanwhile.

Other callers, redlock top and redlock inspect show who holds a lock: the text of --label or REDLOCK_LABEL, by default
this machine's name and redlock's process.
With --announce run tells redlock observe, and programs that observe the lock, at once when it has got or released the
lock, and which token it has. --announce is not for --read and --permits; redlock resume announces nothing.

With --transfer FILE run does not release the lock when COMMAND succeeds: it writes a text to
FILE, with which redlock resume goes on with the lock, on any machine, within the ttl.
Nobody else gets the lock in between. The text is worth as much as the lock: FILE has mode
0600, and replaces an older one. If COMMAND fails, or too few nodes confirm the transfer (69), run
releases the lock and writes nothing. --transfer is for one name, and not for --read, --permits or
--min-hold.

If redlock itself is killed (SIGKILL), nobody renews, and the lock ends with its ttl. On
Linux COMMAND gets SIGTERM then; its children do not, and on other systems COMMAND goes
on. After the ttl it runs without the lock. So it does while redlock alone is stopped (SIGSTOP, which
redlock cannot pass on), or COMMAND alone is continued after Ctrl-Z: continue redlock, by fg.

If nothing reads redlock's messages any more (head -1, a logger that has ended), redlock and
COMMAND continue, and the messages are lost. COMMAND's own output goes to the same place:
COMMAND gets SIGPIPE when it writes there, as without redlock. The same goes for
a pipe that is full, since its reader has stopped reading: COMMAND is blocked when it writes there.

COMMAND leads a process group of its own. redlock forwards each signal that it can catch to that group,
but SIGCHLD, SIGPIPE, SIGURG and SIGPROF; one that asks to end, such as SIGTERM, also continues a COMMAND that
is stopped. At a terminal COMMAND has the foreground whenever redlock would have it, whatever its stdin
is. When Ctrl-Z stops COMMAND, redlock stops all of its group, and itself. Continued, by fg or bg, it asks the
nodes before COMMAND goes on: if the lock was lost meanwhile, COMMAND gets SIGTERM instead. Elsewhere a
COMMAND that is stopped keeps its lock. If Ctrl-C ends COMMAND, redlock ends by SIGINT too, and with it the loop or
script that runs it. As process 1 of a container redlock reaps orphans. On Windows there are no such signals:
COMMAND is killed at once.`

// runExamples are the examples in the same help.
const runExamples = `  redlock run backup -- /usr/local/bin/backup --full
  redlock run deploy --wait 5m -- make deploy      # give up after five minutes
  redlock run nightly --no-wait --ready 1m --ttl 30s --min-hold 30s -- nightly   # at one machine, 75 at the others
  redlock run report --ttl 1m --grace 10s -- report
  redlock run --read catalog -- export-catalog     # beside others that read it
  redlock run deployments --permits 3 -- deploy    # three at a time
  redlock run account-3 account-7 -- transfer      # both at once, or neither
  redlock run release --transfer built --ttl 1m -- make build && redlock resume --from built -- make deploy
  redlock run row-7 -- sh -c 'psql -v token=$REDLOCK_TOKEN -f change.sql'`

func newRun(s *settings) *cobra.Command {
	f := &runFlags{}
	cmd := &cobra.Command{
		Use:     "run NAME... [flags] -- COMMAND [ARGUMENT...]",
		Short:   "Run a command under a lock",
		Long:    runHelp,
		Example: runExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := f.check(cmd, args); err != nil {
				return err
			}
			dash := cmd.ArgsLenAtDash()
			return f.run(cmd, s, slices.Sorted(slices.Values(args[:dash])), args[dash:])
		},
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.read, "read", false, "hold a share of the lock, together with other commands that run with --read")
	flags.IntVar(&f.permits, "permits", 0,
		"NAME is a semaphore with so many permits, 1 to 256: as many commands run at the same time")
	flags.IntVar(&f.take, "take", 1, "with --permits: so many permits for this command")
	flags.DurationVar(&f.minHold, "min-hold", 0,
		"keep the lock taken until this time after it was asked for, also when COMMAND has ended; at most the ttl")
	flags.DurationVar(&f.wait, "wait", 0, "wait this time at most for the lock (default without limit)")
	flags.BoolVar(&f.noWait, "no-wait", false, "do not wait for a holder: fail at once")
	flags.DurationVar(&f.ready, "ready", 0,
		"first wait this time at most until a majority of the nodes votes, and never for a holder")
	flags.BoolVar(&f.announce, "announce", false, "tell observers who holds the lock, and its token")
	flags.BoolVarP(&f.quiet, "quiet", "q", false, "print nothing about a lock that somebody else holds (the exit "+
		"code shows it), nor about nodes while a majority votes")
	f.addShared(cmd)
	return cmd
}

// addShared adds the flags that run and resume have in common.
func (f *runFlags) addShared(cmd *cobra.Command) {
	flags := cmd.Flags()
	flags.DurationVar(&f.ttl, "ttl", 10*time.Second, "how long the lock outlives a redlock that was killed, and can "+
		"go without renewals; below 5s one silent cut of the network ends COMMAND")
	flags.DurationVar(&f.grace, "grace", 0, "time between SIGTERM and SIGKILL (default three tenths of the ttl)")
	flags.DurationVar(&f.stopBefore, "stop-before", 0, "send SIGTERM when renewals fail and this much validity is "+
		"left; 0: when none is left (default the grace, at most a third of the ttl)")
	flags.StringVar(&f.transfer, "transfer", "",
		"when COMMAND succeeds, do not release the lock, but write the text for redlock resume to this `file`")
	flags.StringVar(&f.label, "label", "", "`text` by which others see who holds the lock or waits for it, of at most "+
		"256 bytes (default $"+labelEnv+", else host:pid)")
}

// check checks the flags, and sets those that were not given.
func (f *runFlags) check(cmd *cobra.Command, args []string) error {
	given := cmd.Flags().Changed
	switch dash := cmd.ArgsLenAtDash(); {
	case len(args) == 0:
		return usage("run needs a lock's name and a command: redlock run NAME -- COMMAND")
	case dash < 1:
		return usage("write -- between the lock's names and the command: redlock run %s -- COMMAND", args[0])
	case len(args) == dash:
		return usage("there is no command after --")
	case checkNames(args[:dash]) != nil:
		return checkNames(args[:dash])
	case f.ttl <= 0:
		return usage("--ttl %v: it must be above 0", f.ttl)
	case f.read && dash > 1:
		return usage("--read takes a share of one lock: it cannot take %d names", dash)
	case f.minHold < 0 || f.minHold > f.ttl:
		return usage("--min-hold %v: it must be at most the ttl (%v)", f.minHold, f.ttl)
	case f.minHold > 0 && (f.read || dash > 1):
		return usage("--min-hold is for one name, and not for --read")
	case f.transfer != "" && (f.minHold > 0 || f.read || f.permits > 0 || dash > 1):
		return usage("--transfer is for one name, and neither for --read, --permits nor for --min-hold")
	case f.announce && (f.read || f.permits > 0):
		return usage("--announce is for a holder that is alone: it is not for --read and --permits")
	case f.noWait && given("wait"):
		return usage("--wait and --no-wait exclude each other")
	case given("wait") && f.wait <= 0:
		return usage("--wait %v: it must be above 0; use --no-wait not to wait at all", f.wait)
	case given("ready") && f.ready <= 0:
		return usage("--ready %v: it must be above 0", f.ready)
	}
	if err := f.checkPermits(given, cmd.ArgsLenAtDash()); err != nil {
		return err
	}
	return f.checkShared(cmd)
}

// checkShared checks the flags that run and resume have in common, and sets those that were not
// given.
func (f *runFlags) checkShared(cmd *cobra.Command) error {
	given := cmd.Flags().Changed
	if f.ttl <= 0 {
		return usage("--ttl %v: it must be above 0", f.ttl)
	}
	if f.grace < 0 || f.stopBefore < 0 {
		return usage("--grace and --stop-before must not be negative")
	}
	if given("transfer") && f.transfer == "" {
		return usage("--transfer needs the name of a file")
	}
	if f.label = cmp.Or(f.label, os.Getenv(labelEnv)); len(f.label) > maxLabel {
		return usage("--label, or %s, has %d bytes: at most %d are possible", labelEnv, len(f.label), maxLabel)
	}
	if !given("grace") {
		f.grace = f.ttl * 3 / 10
	}
	if !given("stop-before") {
		f.stopBefore = min(f.grace, f.ttl/3)
	}
	if f.stopBefore > f.ttl/2 {
		return usage("--stop-before %v: it must be at most half of the ttl (%v), or a renewal would "+
			"always come too late", f.stopBefore, f.ttl)
	}
	return nil
}

// run returns the command's exit code as an *exit, or why it was not run, or was stopped.
func (f *runFlags) run(cmd *cobra.Command, s *settings, names, command []string) error {
	return f.runUnder(cmd, s, command, func(r *runner, client *redlock.Client) (*redlock.Lease, error) {
		if err := f.notNested(cmd.Context(), client, names); err != nil {
			return nil, err
		}
		if err := r.awaitReady(client); err != nil {
			return nil, err
		}
		lease, err := r.acquire(client, names, !f.quiet)
		if f.quiet && errors.Is(err, redlock.ErrHeld) {
			err = &exit{code: codeHeld}
		}
		return lease, err
	})
}

// runUnder runs a command under the lease that acquire returns, and returns what run does.
func (f *runFlags) runUnder(cmd *cobra.Command, s *settings, command []string,
	acquire func(*runner, *redlock.Client) (*redlock.Lease, error)) error {
	path, err := findCommand(command[0])
	if err != nil {
		return err
	}
	text, err := newTextFile(f.transfer)
	if err != nil {
		return err
	}
	defer text.discard()
	surviveBrokenPipe()
	s.quiet = f.quiet
	r := &runner{flags: f, log: cmd.ErrOrStderr(), verbose: s.verbose}
	r.signals = make(chan os.Signal, 64)
	for _, sig := range forwarded() {
		if !signal.Ignored(sig) { // nohup, and background jobs of scripts
			signal.Notify(r.signals, sig)
		}
	}
	defer signal.Stop(r.signals)
	opts := []redlock.ClientOption{redlock.WithTTL(f.ttl)}
	if f.label != "" {
		opts = append(opts, redlock.WithOwnerLabel(f.label))
	}
	client, err := s.open(cmd, opts...)
	if err != nil {
		return err
	}
	defer client.Close()
	if r.lease, err = acquire(r, client); err != nil {
		return coded(err)
	}
	code, err := r.work(path, command)
	if err == nil && code == 0 && text != nil {
		err = r.transfer(text)
	}
	return r.finish(code, err)
}

// surviveBrokenPipe lets redlock go on when nothing reads its stdout or stderr any more: else the
// next message would end redlock by SIGPIPE, and with it the command and the renewals. It never
// stops, since the last messages come when the command has ended. The signal must not be ignored
// instead: the command would inherit that.
func surviveBrokenPipe() { signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) }

// finish releases the lock, which does nothing if it was transferred, and returns what run does. why is why the
// command was stopped, or why its lock was not transferred.
func (r *runner) finish(code int, why error) error {
	switch end := r.lease.Unlock(context.Background()); {
	case why != nil || end == nil:
	case errors.Is(end, redlock.ErrLost):
		why = &exit{code: codeLost,
			why: fmt.Errorf("the command has ended, but the lock was lost before, and somebody else may have held "+
				"it meanwhile: %s", lossOf(end, r.verbose))}
	default:
		r.print("the release was not confirmed by a majority, so the lock may stay held for up to %v: %v", r.flags.ttl,
			end)
	}
	switch {
	case why != nil:
		return coded(why)
	case code != 0:
		return &exit{code: code, by: r.by}
	}
	return nil
}

// runner runs one command under one lease.
type runner struct {
	flags   *runFlags
	lease   *redlock.Lease
	signals chan os.Signal
	verbose bool
	log     io.Writer
	by      os.Signal // an interrupt that has ended the command, or nil

	mu sync.Mutex // protects writes to log
}

func (r *runner) print(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	fmt.Fprintf(r.log, "redlock: %s\n", printable.Line(fmt.Sprintf(format, args...)))
}
