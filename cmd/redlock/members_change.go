package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// changeHelp is a part of the help of the commands that change the list.
const changeHelp = `

The list of masters is at the masters. It changes by one master at a time, while locks go on, and clients follow by
themselves: they need neither a restart nor the new address. Their settings may be changed later, in any order.

ADDR is host:port, as redlock members shows it; user, password and TLS are those of the first node. Give the nodes
that are masters now. Each step is printed, with its time. A step is chosen by a majority of the masters, and takes some
five seconds; the next one waits until leases from before have ended. The command goes on where another one
was stopped or killed. Of two at once each step has one outcome.

It refuses a change after which no majority would vote, and a server that is a replica, evicts keys, or has the data of
another list. It gives up after --wait, with 69; another call goes on.`

func newMembersAdd(s *settings) *cobra.Command {
	return newChange(s, "add ADDR", "Make a server one of the masters", "  redlock members add 10.0.3.1:6379",
		"The new server should be empty: it first waits until leases that it might have forgotten have ended.",
		1, func(args []string) memberChange { return memberChange{add: args[0]} })
}

func newMembersRemove(s *settings) *cobra.Command {
	return newChange(s, "remove ADDR", "Take a server out of the masters", "  redlock members remove 10.0.2.1:6379",
		"The server may be dead. It may be stopped for good when the command has ended.",
		1, func(args []string) memberChange { return memberChange{remove: args[0]} })
}

func newMembersReplace(s *settings) *cobra.Command {
	return newChange(s, "replace OLD NEW", "Put a server in the place of a master", "  redlock members replace 10.0.2.1:6379 10.0.3.1:6379",
		"While the old master votes, the new one is added, and then the old one removed. A dead one is removed first.",
		2, func(args []string) memberChange { return memberChange{remove: args[0], add: args[1]} })
}

func newChange(s *settings, use, short, example, long string, args int, of func([]string) memberChange) *cobra.Command {
	var wait time.Duration
	var asJSON bool
	cmd := &cobra.Command{Use: use, Short: short, Example: example, Long: long + changeHelp, Args: cobra.ExactArgs(args)}
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := of(args)
		c.out, c.json = cmd.OutOrStdout(), asJSON
		s.showsNodes, s.also = true, c.add
		ctx, stop := context.WithTimeout(cmd.Context(), wait)
		defer stop()
		client, err := s.openReader(cmd)
		if err != nil {
			return err
		}
		defer func() { client.Close() }()
		if err := client.WaitReady(ctx); err != nil {
			return coded(err)
		}
		if c.add != "" && len(client.Members()) == 1 {
			// In a list of two no lock is granted without the new master. So it waits for this guard before it is added.
			s.guard, s.guardGiven = max(s.guard, admission.MajorityLossGuard), true
			longer, err := s.openReader(cmd)
			if err != nil {
				return err
			}
			client.Close()
			client = longer
		}
		return c.run(ctx, peek.Group(client).(*admission.Group))
	}
	cmd.Flags().DurationVar(&wait, "wait", 5*time.Minute, "how long it tries")
	cmd.Flags().BoolVar(&asJSON, "json", false, "one JSON object for each step: time, step, masters, text")
	return cmd
}

// withAddress adds the URL of a server that is reached as the first one is; "" adds none.
func withAddress(urls []string, address string) ([]string, error) {
	if address == "" {
		return urls, nil
	}
	for _, raw := range urls {
		if e, err := endpoint.Parse(raw); err == nil && e.Address == address {
			return urls, nil
		}
	}
	u, err := url.Parse(urls[0])
	if err != nil || u.Scheme == "unix" || strings.ContainsAny(address, "/@?#") || !strings.Contains(address, ":") {
		return nil, &exit{code: codeUsage, why: fmt.Errorf("%q is no address such as 10.0.3.1:6379", address)}
	}
	u.Host = address
	return append(slices.Clone(urls), u.String()), nil
}

// memberChange is a change of the list of masters.
type memberChange struct {
	add, remove string // addresses; "": none

	out  io.Writer
	json bool
}

// changeStep is what is printed of a step with --json. The names are stable.
type changeStep struct {
	Time    time.Time `json:"time"`
	Step    string    `json:"step"` // began, waits, chosen, done
	Masters []string  `json:"masters"`
	Text    string    `json:"text"`
}

// say prints a step.
func (c *memberChange) say(step string, list *protocol.List, format string, args ...any) {
	s := changeStep{Time: time.Now(), Step: step, Masters: list.Names(), Text: fmt.Sprintf(format, args...)}
	if c.json {
		_ = json.NewEncoder(c.out).Encode(s)
		return
	}
	fmt.Fprintf(c.out, "%s  %s\n", s.Time.Format(time.TimeOnly), printable.Line(s.Text))
}

// changePause is how long the command waits before it looks again.
const changePause = 250 * time.Millisecond

// run changes the list until it is as it shall be.
func (c *memberChange) run(ctx context.Context, group *admission.Group) error {
	said := ""
	for began := true; ; began = false {
		list, _ := group.InForce()
		pause, text := changePause, "no majority of the masters votes"
		if list.ID != "" {
			if began {
				c.say("began", &list, "the masters are %s", list.Masters)
			}
			next, doing, err := c.next(group, &list)
			switch {
			case err != nil:
				return err
			case doing == "":
				c.say("done", &list, "the masters are %s%s", list.Masters, c.mayStop())
				return nil
			case next.ID == "":
				text = doing
			default:
				pause, text, err = c.step(ctx, group, list, next)
				if err != nil {
					return err
				}
			}
		}
		if text != "" && text != said {
			c.say("waits", &list, "%s", text)
			said = text
		}
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return &exit{code: codeNoQuorum, why: fmt.Errorf("the list is not changed yet: %s; call it again to go on", said)}
		}
	}
}

func (c *memberChange) mayStop() string {
	if c.remove == "" {
		return ""
	}
	return "; " + c.remove + " may be stopped now; wipe it before it starts again"
}

// next returns the list that is to follow another one: zero while it must wait, as doing says. doing is "" when all is done.
func (c *memberChange) next(group *admission.Group, list *protocol.List) (next protocol.List, doing string, err error) {
	voting, names := group.Voting(list), list.Names()
	adds, removes := c.add != "" && !list.Has(c.add), c.remove != "" && list.Has(c.remove)
	joining := c.add != "" && !adds && !slices.Contains(voting, c.add)
	switch {
	case adds && (!removes || slices.Contains(voting, c.remove)):
		next = list.Next(append(names, c.add))
	case joining:
		return next, c.add + " is about to vote", nil
	case removes && len(names) == 1:
		return next, "", &exit{code: codeUsage, why: errors.New("it is the only master: add another one first")}
	case removes:
		next = list.Next(slices.DeleteFunc(names, func(name string) bool { return name == c.remove }))
	default:
		return next, "", nil
	}
	able := 0
	for _, name := range voting {
		if next.Has(name) {
			able++
		}
	}
	if must := next.Quorum(); able < must && !(list.Len() == 1 && adds) {
		return protocol.List{}, fmt.Sprintf("%d of the masters %s vote, and %d must: else no lock could be granted", able, next.Masters, must), nil
	}
	return next, "changing", nil
}

// step takes the next step. It returns after what time to look again, and what it waits for.
func (c *memberChange) step(ctx context.Context, group *admission.Group, list, next protocol.List) (pause time.Duration, waits string, err error) {
	if next.Len() > list.Len() {
		left, err := group.Candidate(ctx, &list, c.add)
		var unfit *admission.CandidateError
		switch {
		case errors.As(err, &unfit):
			return 0, "", &exit{code: codeConfig, why: fmt.Errorf("%s cannot become a master: %w", c.add, err)}
		case err != nil:
			return changePause, c.add + " does not answer: " + err.Error(), nil
		case left > 0:
			return min(left, time.Second), c.add + " is in quarantine, until leases that it might have forgotten have ended", nil
		}
	}
	chosen, err := group.Change(ctx, list, next, admission.Kept)
	var settling *admission.SettlingError
	switch {
	case err == nil:
		c.say("chosen", &chosen, "a majority has chosen %s", chosen.Masters)
		return changePause, "", nil
	case errors.As(err, &settling):
		return min(settling.Left, time.Second), "leases that were granted under the list before must end first", nil
	}
	return changePause + rand.N(4*time.Second), err.Error(), nil
}
