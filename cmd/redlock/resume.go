package main

import (
	"context"
	"errors"
	"fmt"
	"sync"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock"
)

const resumeHelp = `resume goes on with a lock that redlock run --transfer, or a program, has transferred: it
takes the lock over, runs COMMAND under it, and releases it, as run does. Nobody else
gets the lock in between. The token that COMMAND finds is greater than that of the old lease.

resume reads the text from the file of --from, which only its owner may read or write
(mode 0600), or else from stdin, of which nothing is left for COMMAND then. It never
stands on a command line, which every user of the machine can read. When the lock is
resumed, the file is deleted, unless it has another text by then. If FILE is a link, the
file to which it leads is deleted.

Start resume before the old lease would have ended: within the --ttl of the redlock run or
resume that transferred the lock. A resume that comes later, or whose text was resumed before,
exits with 76 and does not run COMMAND: the lock is free, or somebody else has it. resume
needs the nodes and the prefix with which the lock was transferred. While too few nodes answer
it tries again, until the old lease would have ended. If it fails, the file stays; the text in it
can be used again only if resume had not asked the nodes (64, 78, 127).

COMMAND's environment, its signals, and its end when the lock is lost are those of run.`

const resumeExamples = `  redlock resume --from built -- make deploy       # after run release --transfer built -- make build
  redlock resume --from built --transfer deployed -- make deploy   # and hands it on
  ssh build-host cat built | redlock resume --ttl 30s -- make deploy   # the text from stdin`

func newResume(s *settings) *cobra.Command {
	f := &runFlags{}
	var from string
	cmd := &cobra.Command{
		Use:     "resume [flags] -- COMMAND [ARGUMENT...]",
		Short:   "Run a command under a lock that was transferred",
		Long:    resumeHelp,
		Example: resumeExamples,
		RunE: func(cmd *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usage("resume needs a command: redlock resume -- COMMAND")
			case cmd.ArgsLenAtDash() != 0:
				return usage("write -- before the command, and no name: the text has the lock's name")
			}
			if err := f.checkShared(cmd); err != nil {
				return err
			}
			text, err := readText(from, cmd.InOrStdin())
			if err != nil {
				return err
			}
			return f.runUnder(cmd, s, args, func(r *runner, client *redlock.Client) (*redlock.Lease, error) {
				lease, err := r.resume(client, text)
				if err == nil && from != "" {
					removeText(from, text) // it is of no use any more
				}
				return lease, err
			})
		},
	}
	cmd.Flags().StringVar(&from, "from", "", "read the text from this `file` (default from stdin)")
	f.addShared(cmd)
	return cmd
}

// resume resumes the lease of a text. A signal ends the call.
func (r *runner) resume(client *redlock.Client, text string) (*redlock.Lease, error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	var beside sync.WaitGroup
	over := make(chan struct{})
	beside.Go(func() { r.cancelOnSignal(over, cancel) })
	lease, err := client.Resume(ctx, text)
	close(over)
	beside.Wait()

	if err := interruption(ctx, lease, "resuming a lock"); err != nil {
		return nil, err
	}
	if errors.Is(err, redlock.ErrLost) {
		return nil, &exit{code: codeLost, why: fmt.Errorf("the command is not run: %s", withoutName(err))}
	}
	return lease, err
}
