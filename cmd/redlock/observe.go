package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// observeHelp is the help of redlock observe, and a part of its manual.
const observeHelp = `observe shows who holds the lock NAME: now, and at each change, until a signal ends it. It prints
one JSON object each time, on a line of its own; docs/reference/json.md has the fields. What is empty or not
known is missing: nobody holds the lock if holder and shared are missing. If
no majority answers, error says why; the rest is what most of the other nodes say, and observe goes on.

With COMMAND, observe prints nothing itself, and runs COMMAND: at first for the present holder, then for each
change. COMMAND finds in its environment REDLOCK_NAME, REDLOCK_HOLDER, REDLOCK_OWNER, REDLOCK_TOKEN,
REDLOCK_SINCE, REDLOCK_SHARED (1: readers hold the lock) and REDLOCK_ERROR, with what the JSON has, and empty where it
has nothing. Text of others that is not printable is escaped there.

One COMMAND runs at a time. If the holder changes meanwhile, observe runs it once more when it has ended, with the
newest holder alone: COMMAND learns who holds the lock, and not of each that held it. If
COMMAND fails, observe says so on stderr and goes on. COMMAND has no stdin.

observe gives no exclusion: what it shows may be over when you see it. What acts as the leader, or in its name, must
send the token (REDLOCK_TOKEN) along when it writes, so that the resource can refuse an older one.

A token is shown only where the holder announces itself: a program by Mutex.Lead or
WithAnnounce, redlock run by --announce. Such a holder is seen at once. Others are seen within some two
seconds, and without a token.

observe changes nothing at the nodes. When a signal ends it, COMMAND gets SIGTERM, and SIGKILL five seconds later
if it is still there; what COMMAND has started gets neither. observe then exits with 0.`

// observeGrace is how long a command may go on when a signal ends observe.
const observeGrace = 5 * time.Second

func newObserve(s *settings) *cobra.Command {
	return &cobra.Command{
		Use:   "observe NAME [flags] [-- COMMAND [ARGUMENT...]]",
		Short: "Print who holds a lock at each change, or run a command",
		Long:  observeHelp,
		Example: `  redlock observe leader
  redlock observe leader | jq -r '"\(.time) \(.holder // "nobody") \(.token // "")"'
  redlock observe leader -- sh -c 'printf "%s %s\n" "$REDLOCK_HOLDER" "$REDLOCK_TOKEN" >leader.txt'`,
		RunE: func(cmd *cobra.Command, args []string) error {
			dash := cmd.ArgsLenAtDash()
			switch {
			case len(args) == 0 || dash == 0:
				return usage("observe needs a lock's name: redlock observe NAME")
			case dash < 0 && len(args) > 1:
				return usage("observe takes one name; write -- before a command: redlock observe %s -- COMMAND", args[0])
			case dash > 1:
				return usage("observe takes one name, not %d: start one for each name", dash)
			case dash == len(args):
				return usage("there is no command after --")
			case dash < 0:
				return printHolders(cmd, s, args[0])
			}
			path, err := findCommand(args[dash])
			if err != nil {
				return err
			}
			return observe(cmd, s, args[0], func(ctx context.Context, h *holding) error {
				return h.run(ctx, cmd, path, args[dash:])
			})
		},
	}
}

// holding says who holds a lock. docs/reference/json.md documents the fields. They are stable.
type holding struct {
	Time   time.Time `json:"time"`
	Name   string    `json:"name"`
	Holder string    `json:"holder,omitempty"`
	Owner  string    `json:"owner,omitempty"`
	Token  int64     `json:"token,omitempty"`
	Since  time.Time `json:"since,omitzero"`
	Shared bool      `json:"shared,omitempty"`
	Error  string    `json:"error,omitempty"`
}

// observe calls tell with who holds a lock, and again at each change, until a signal ends it.
func observe(cmd *cobra.Command, s *settings, name string, tell func(context.Context, *holding) error) error {
	if err := checkNames([]string{name}); err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), endSignals()...)
	defer stop()
	client, err := s.openReader(cmd)
	if err != nil {
		return err
	}
	defer client.Close()
	for found, err := range client.Mutex(name).Observe(ctx) {
		h := holding{Time: time.Now().UTC(), Name: name, Holder: overview.OwnerLabel(found.Owner),
			Owner: printable.Quote(found.Owner), Token: found.Token, Since: found.Since.UTC(), Shared: found.Shared}
		switch {
		case ctx.Err() != nil:
			return nil
		case errors.Is(err, redlock.ErrNoQuorum):
			h.Error = withoutName(err)
		case err != nil:
			return coded(err)
		}
		if err := tell(ctx, &h); err != nil {
			return err
		}
	}
	return nil
}

// printHolders prints who holds a lock, and each change, until a signal ends it.
func printHolders(cmd *cobra.Command, s *settings, name string) error {
	return observe(cmd, s, name, func(_ context.Context, h *holding) error {
		if err := writeJSON(cmd.OutOrStdout(), h); err != nil {
			return &exit{code: codeDanger, why: err}
		}
		return nil
	})
}

// run runs a command that is told who holds the lock. Only a command that cannot be started is an
// error.
func (h *holding) run(ctx context.Context, cmd *cobra.Command, path string, args []string) error {
	c := exec.CommandContext(ctx, path)
	c.Args, c.Env = args, append(os.Environ(), h.environment()...)
	c.Stdout, c.Stderr = os.Stdout, os.Stderr
	c.WaitDelay = observeGrace
	c.Cancel = func() error {
		err := c.Process.Signal(syscall.SIGTERM)
		if err == nil || errors.Is(err, os.ErrProcessDone) {
			return err
		}
		return c.Process.Kill() // Windows has no signal that asks a process to end
	}
	err := c.Run()
	switch {
	case err == nil || ctx.Err() != nil:
		return nil
	case c.Process == nil:
		return notExecutable(args[0], err)
	}
	fmt.Fprintf(cmd.ErrOrStderr(), "redlock: %s failed (%v); observe runs it again at the next change\n",
		printable.Quote(args[0]), err)
	return nil
}

// environment returns what a command is told. No variable can have a byte 0.
func (h *holding) environment() []string {
	var token, since, shared string
	if h.Token > 0 {
		token = strconv.FormatInt(h.Token, 10)
	}
	if !h.Since.IsZero() {
		since = h.Since.Format(time.RFC3339)
	}
	if h.Shared {
		shared = "1"
	}
	return []string{"REDLOCK_NAME=" + h.Name, "REDLOCK_HOLDER=" + h.Holder, "REDLOCK_OWNER=" + h.Owner,
		"REDLOCK_TOKEN=" + token, "REDLOCK_SINCE=" + since, "REDLOCK_SHARED=" + shared,
		"REDLOCK_ERROR=" + printable.Line(h.Error)}
}
