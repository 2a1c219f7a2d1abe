package operate

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// pageSize is how many keys a server looks at for one page of one place: that takes it a fraction of a
	// millisecond.
	pageSize = 500

	// batchNames and batchBytes bound the questions that are sent to a node at a time. A vote
	// that is queued behind them waits for about a millisecond.
	batchNames = 50
	batchBytes = 16 << 10

	// batchSemaphores bounds the questions about semaphores: for each, a server looks at 256 keys.
	batchSemaphores = 8

	// restFactor is how many times as long as it was busy a server rests: it is busy for a tenth
	// of the time.
	restFactor = 9

	// socketTime bounds how long a server takes to read a batch and to write the answers, which
	// is not in the time between its first and its last command.
	socketTime = 200 * time.Microsecond
)

// scan returns the names on the next page of a node's keys, of each place that has one, and moves the cursors on.
// They mean something to the server of p only.
func (r *run) scan(ctx context.Context, i int, p *pipe.Pipe, at *cursors) (locks, semaphores []string, err error) {
	if err := r.enter(ctx); err != nil {
		return nil, nil, err
	}
	defer r.Life.Leave()
	begun := r.Clock()
	var pages []node.Command
	for k, cursor := range at {
		if cursor != "" {
			args := []any{cursor, "MATCH", r.match[k], "COUNT", pageSize, "TYPE", places[k].kind}
			pages = append(pages, node.Command{Name: "SCAN", Args: args})
		}
	}
	b := r.ask(i, p, pages)
	answerBy, cancel := context.WithTimeout(ctx, r.PageTimeout)
	defer cancel()
	if !b.Wait(answerBy) {
		if ctx.Err() != nil {
			return nil, nil, r.end(life.EndOf(ctx))
		}
		return nil, nil, fmt.Errorf("no answer within %v", r.PageTimeout)
	}
	r.rest(r.Clock()-begun, serverTime(b))
	page := 0
	for k := range at {
		if at[k] == "" {
			continue
		}
		keys, next, err := readPage(answer(b, page))
		if err != nil {
			return nil, nil, err
		}
		if at[k] = next; next == "0" {
			at[k] = ""
		}
		if places[k].semaphore {
			semaphores = append(semaphores, r.namesOf(keys, places[k].before)...)
		} else {
			locks = append(locks, r.namesOf(keys, places[k].before)...)
		}
		page++
	}
	return distinct(locks), distinct(semaphores), nil
}

// readPage reads the reply to SCAN, or the error that came in its place.
func readPage(r node.Reply) (keys []string, next string, err error) {
	if node.IsCode(r.Err, "NOPERM") {
		return nil, "", fmt.Errorf("%w (grant the user +scan, which only listings of locks need)", r.Err)
	}
	parts, err := redis.Values(r.Value, node.Advise(r.Err))
	if err != nil {
		return nil, "", err
	}
	if _, err := redis.Scan(parts, &next, &keys); err != nil || next == "" {
		return nil, "", fmt.Errorf("unexpected reply to SCAN: %.80q", fmt.Sprint(parts...))
	}
	return keys, next, nil
}

// namesOf returns the names of the locks to which these keys belong, which begin with before. The library's
// own keys are not those of locks.
func (r *run) namesOf(keys []string, before string) (names []string) {
	for _, key := range keys {
		key, isHere := strings.CutPrefix(key, before)
		name, ours := strings.CutPrefix(key, r.Prefix)
		if isHere && ours && name != "" && len(key) <= protocol.MaxKey && !strings.HasPrefix(key, protocol.Reserved) {
			names = append(names, name)
		}
	}
	return names
}

// distinct returns the names in the order of their bytes, each once.
func distinct(names []string) []string {
	slices.Sort(names)
	return slices.Compact(names)
}

// batches splits names into those that are asked for at a time, at most so many.
func batches(names []string, most int) (all [][]string) {
	const aside = 250 // bytes of a question, beside the name, which it has three times
	for len(names) > 0 {
		size, n := 0, 0
		for n < min(len(names), most) && (n == 0 || size < batchBytes) {
			size += aside + 3*len(names[n])
			n++
		}
		all = append(all, names[:n])
		names = names[n:]
	}
	return all
}

// inspect asks all nodes what stands there for the names, of locks or of semaphores, except those nodes that have not
// answered what they were asked before.
func (r *run) inspect(ctx context.Context, names []string, semaphores bool) ([]Found, error) {
	questions, read := lockQuestions, readLock
	if semaphores {
		questions, read = slotQuestions, readSlots
	}
	if err := r.enter(ctx); err != nil {
		return nil, err
	}
	defer r.Life.Leave()
	begun, busy := r.Clock(), time.Duration(0)
	reasons := make([]error, len(r.Nodes))
	for i, n := range r.Nodes {
		p, right := n.Pipe(), n.Current()
		switch b := r.asked[i]; {
		case p == nil || right == nil:
			reasons[i] = n.Why()
		case b != nil && !b.IsAnswered():
			reasons[i] = ErrNoAnswer
		default:
			r.ask(i, p, questions(r.Prefix, names, right.Record))
		}
	}
	answerBy, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	for i, b := range r.asked {
		switch {
		case reasons[i] != nil:
		case b.Wait(answerBy):
			busy = max(busy, serverTime(b))
		default:
			reasons[i] = ErrNoAnswer
		}
	}
	if ctx.Err() != nil {
		return nil, r.end(life.EndOf(ctx))
	}
	took := r.Clock() - begun
	r.rest(took, busy)
	all := make([]Found, len(names))
	for k, name := range names {
		all[k] = Found{Name: name, Semaphore: semaphores, Begun: begun, Took: took, Answers: r.answers(k, reasons, read)}
	}
	return all, nil
}

// answers returns what the nodes answered about the k-th name of a batch, as read reads it, or the reasons why
// they did not.
func (r *run) answers(k int, reasons []error, read func(reply any, err error) (protocol.Inspection, error)) []Answer {
	all := make([]Answer, len(r.Nodes))
	for i, why := range reasons {
		if all[i].Err = why; why == nil {
			reply := answer(r.asked[i], k)
			all[i].Inspection, all[i].Err = read(reply.Value, reply.Err)
		}
	}
	return all
}

// ask sends a node commands, and asks for the server's time before and after them.
func (r *run) ask(i int, p *pipe.Pipe, commands []node.Command) *node.Batch {
	clock := node.Command{Name: "TIME"}
	r.asked[i] = r.Nodes[i].AskAll(p, slices.Concat([]node.Command{clock}, commands, []node.Command{clock}))
	return r.asked[i]
}

// answer returns the answer to the k-th of the commands given to ask.
func answer(b *node.Batch, k int) node.Reply { return b.Reply(k + 1) }

// serverTime returns how long the server was busy with the commands given to ask, at most;
// system.Forever if that is not known.
func serverTime(b *node.Batch) time.Duration {
	before, after := b.Reply(0), b.Reply(b.Len()-1)
	first, errFirst := node.ServerTime(before.Value, before.Err)
	last, errLast := node.ServerTime(after.Value, after.Err)
	if errFirst != nil || errLast != nil || last < first {
		return system.Forever
	}
	return last - first + socketTime
}

// rest lets the servers rest before the next question. The busiest was busy for no longer than
// busy, and than trip, which the question took.
func (r *run) rest(trip, busy time.Duration) {
	r.restUntil = r.Clock() + restFactor*min(trip, busy)
}

// enter waits until the servers have rested, and enters the client's life. After a nil error the
// caller must leave it.
func (r *run) enter(ctx context.Context) error {
	if ctx.Err() != nil {
		return r.end(life.EndOf(ctx))
	}
	if left := r.restUntil - r.Clock(); left > 0 {
		if err := r.Life.Pause(ctx, left); err != nil {
			return r.end(err)
		}
	}
	if err := r.Life.Enter(ctx); err != nil {
		return r.end(err)
	}
	return nil
}

// end ends the listing for a reason that is not a node's.
func (r *run) end(cause error) error {
	r.failure = &Failure{Cause: cause}
	return errEnded
}
