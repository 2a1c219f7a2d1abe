package admission

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A majority of a list of masters chooses the list after it, which has one master more or one less. They promise to accept no
// earlier proposal, and then accept one: Paxos, for one decision. docs/safety.md (The next list) has the argument.

// Kept is how long a server must have kept a promise, or a proposal that it accepted, before that counts: by then a server
// that writes to disk each second has it there.
const Kept = 2 * time.Second

// SettlingError is why a list cannot be followed by another one yet.
type SettlingError struct{ Left time.Duration }

func (e *SettlingError) Error() string {
	return fmt.Sprintf("leases that were granted under the list before may be valid for another %v", e.Left.Round(time.Millisecond))
}

// Change has a list followed by the list next, which has one master more or one less, and gives that to all nodes. kept is
// Kept, but for tests. It returns the list that was chosen: not next if another proposal was first. Errors: *SettlingError, ctx's,
// or why there was no majority; a list may have been chosen then, which the next Change finds.
func (g *Group) Change(ctx context.Context, list, next protocol.List, kept time.Duration) (chosen protocol.List, err error) {
	if n := list.Differences(&next); n != 1 {
		return chosen, fmt.Errorf("the list of masters changes by one master at a time, and %s and %s differ by %d",
			list.Masters, next.Masters, n)
	}
	e := &election{group: g, list: list, next: next, kept: kept, voters: g.voters(list.ID)}
	e.next.Mark(g.cfg.Random.ID("list").String()[:8])
	e.ballot = fmt.Sprintf("%016d-%s", max(g.cfg.Wall().UnixMicro(), g.ballots.Load()+1), g.cfg.Random.ID("ballot"))
	if err := e.twice(ctx, e.promise); err != nil {
		return chosen, err
	}
	if e.choice.Accepted != "" {
		e.next = protocol.ReadProposal(e.choice.Proposal)
	}
	if err := e.twice(ctx, e.accept); err != nil {
		return chosen, err
	}
	g.hear(&e.next)
	g.spread(ctx, list.ID, e.next)
	return e.next, nil
}

// Voting returns the masters of a list that vote under it.
func (g *Group) Voting(list *protocol.List) (masters []string) {
	for _, v := range g.voters(list.ID) {
		masters = append(masters, v.masterOf(list))
	}
	return masters
}

// CandidateError is why a server cannot become a master before a person acts.
type CandidateError struct{ Why error }

func (e *CandidateError) Error() string { return e.Why.Error() }

// Candidate returns how long it takes, at least, until a server that the settings name could vote as soon as the list after this
// one has it. Errors: a *CandidateError, or why that is not known.
func (g *Group) Candidate(ctx context.Context, list *protocol.List, master string) (wait time.Duration, err error) {
	i := slices.IndexFunc(g.members(), func(m *Member) bool { return m.master == master })
	if i < 0 {
		return 0, &CandidateError{errors.New("the client does not have it")}
	}
	m := g.members()[i]
	p, r := m.Pipe(), m.right.Load()
	if p == nil || r == nil {
		err := m.Why()
		if node.IsPermanent(err) {
			err = &CandidateError{err}
		}
		return 0, err
	}
	bounded, stop := context.WithTimeout(ctx, g.cfg.DeadAfter)
	defer stop()
	its, err := protocol.ReadStanding(m.Await(bounded, m.Ask(p, "EVAL", protocol.RecordCall{Run: r.run}.Eval()...)))
	info, noInfo := redis.String(m.Await(bounded, m.Ask(p, "INFO", "memory")))
	switch remembers := &its.List; {
	case err != nil:
		return 0, err
	case remembers.ID != "" && remembers.ID != list.ID && !list.Follows(remembers):
		return 0, &CandidateError{fmt.Errorf("it has the data of a master of another list, %s: wipe it, if nobody uses that", remembers.Masters)}
	case noInfo == nil && node.MayEvict(info):
		return 0, &CandidateError{errors.New("it may evict locks under memory pressure: set maxmemory-policy noeviction")}
	case its.Nodes == "" && !its.Looked:
		return retryInterval, nil
	}
	return its.Left, nil
}

// election is one proposal for the list after another one.
type election struct {
	group  *Group
	list   protocol.List // that is to be followed
	next   protocol.List // that is proposed
	ballot string
	kept   time.Duration
	voters []voter // that have agreed so far

	seen     collected       // has the greatest counters of any voter
	choice   protocol.Choice // what they accepted before
	settling time.Duration   // the longest that one of them waits for
}

// voter is a master that votes under the list.
type voter struct {
	*Member
	right *VoteRight
}

// voters returns the masters that vote under a list.
func (g *Group) voters(list string) (all []voter) {
	for _, m := range g.members() {
		if r := m.right.Load(); r.votes() && r.List != nil && r.List.ID == list {
			all = append(all, voter{m, r})
		}
	}
	return all
}

// twice takes a step of all voters, and once more after a while: so there was an instant at which a majority had taken it,
// and none of them had lost it. Those that do not take it are voters no more.
func (e *election) twice(ctx context.Context, step func(*voter) func(context.Context) error) error {
	for round := range 2 {
		if round > 0 {
			select {
			case <-time.After(e.kept):
			case <-ctx.Done():
				return context.Cause(ctx)
			}
		}
		if err := e.once(ctx, step); err != nil {
			return err
		}
	}
	return nil
}

func (e *election) once(ctx context.Context, step func(*voter) func(context.Context) error) error {
	bounded, stop := context.WithTimeout(ctx, e.group.cfg.DeadAfter)
	defer stop()
	var answers []func(context.Context) error
	for i := range e.voters {
		answers = append(answers, step(&e.voters[i])) // all at once
	}
	taken, reasons := e.voters[:0:0], []error{}
	for i, answer := range answers {
		if err := answer(bounded); err != nil {
			reasons = append(reasons, fmt.Errorf("%s: %w", e.voters[i].Name, err))
			continue
		}
		taken = append(taken, e.voters[i])
	}
	switch e.voters = taken; {
	case len(taken) >= e.list.Quorum():
		return nil
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case e.settling > 0:
		return &SettlingError{e.settling}
	}
	why := errors.Join(reasons...)
	if why == nil {
		why = errors.New("no other one votes")
	}
	return fmt.Errorf("%d of the %d masters agreed, and %d must: %w", len(taken), e.list.Len(), e.list.Quorum(), why)
}

// promise has a voter promise to accept no earlier proposal, and adds what it has accepted, and its counters.
func (e *election) promise(v *voter) (answer func(context.Context) error) {
	asked, record := e.propose(v, protocol.List{}), v.ask("HGETALL", v.right.Record)
	return func(ctx context.Context) error {
		r, err := e.taken(ctx, v, asked)
		if err != nil {
			return err
		}
		memory, err := protocol.ReadMemory(v.Await(ctx, record))
		if err != nil {
			return err
		}
		e.seen.merge(&memory, e.group.greatest.Load())
		e.choice.Merge(r)
		return nil
	}
}

// accept has a voter accept the proposal, with counters that are not behind those of the voters.
func (e *election) accept(v *voter) (answer func(context.Context) error) {
	raised := v.ask("EVAL", protocol.LevelCall{Record: v.right.Record, Counts: e.seen.counts}.Eval()...)
	asked := e.propose(v, e.next)
	return func(ctx context.Context) error {
		switch leveled, err := protocol.ReadAdmit(v.Await(ctx, raised)); {
		case err != nil:
			return err
		case !leveled:
			return errForgotChoice
		}
		_, err := e.taken(ctx, v, asked)
		return err
	}
}

// errForgotChoice is why a voter's part in a choice does not count.
var errForgotChoice = errors.New("it has lost its memory, or stands in another list now")

func (v *voter) ask(command string, args ...any) node.Question {
	return v.Ask(v.right.pipe, command, args...)
}

func (e *election) propose(v *voter, next protocol.List) node.Question {
	call := protocol.ProposeCall{List: e.list.ID, Record: v.right.Record, Ballot: e.ballot, Next: next}
	return v.ask("EVAL", call.Eval()...)
}

// taken reads a voter's answer: what it accepted last, or why it does not take the step.
func (e *election) taken(ctx context.Context, v *voter, asked node.Question) (c protocol.Choice, err error) {
	r, err := protocol.ReadPropose(v.Await(ctx, asked))
	switch {
	case err != nil:
		return c, err
	case r.Late != "":
		number, _, _ := strings.Cut(r.Late, "-")
		n, _ := strconv.ParseInt(number, 10, 64)
		raise(&e.group.ballots, n)
		return c, errors.New("another proposal is under way")
	case r.Settling > 0:
		e.settling = max(e.settling, r.Settling)
		return c, &SettlingError{r.Settling}
	case !r.Taken:
		return c, errForgotChoice
	}
	return r.Choice, nil
}

// spread gives the nodes that stand in a list the one that was chosen after it. Those that do not answer get it when a client
// sees them.
func (g *Group) spread(ctx context.Context, before string, next protocol.List) {
	bounded, stop := context.WithTimeout(ctx, g.cfg.DeadAfter)
	defer stop()
	var asked []node.Question
	for _, m := range g.members() {
		if p, r := m.Pipe(), m.right.Load(); p != nil && r != nil {
			asked = append(asked, m.Ask(p, "EVAL", protocol.InstallCall{Run: r.run, List: before, Next: next}.Eval()...))
		}
	}
	for _, q := range asked {
		q.Wait(bounded)
	}
	for _, m := range g.members() {
		m.Nudge()
	}
}
