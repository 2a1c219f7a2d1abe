package operate

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// Listing is what a listing needs of its client.
type Listing struct {
	Clock   system.Clock
	Life    *life.Life
	Nodes   []*admission.Member
	Need    int           // a quorum of them
	Timeout time.Duration // for the answers about a name

	// PageTimeout is how long a page of a node's keys is awaited: a node that is slow once must
	// not cost all that was listed of it.
	PageTimeout time.Duration

	Prefix string // of the locks' keys

	// Memory is how many names are remembered, so that they are not shown twice; 0: MaxMemory.
	Memory int
}

// Found is a name, and what the nodes answered about it: of a lock, or of the semaphore of this name.
type Found struct {
	Name        string
	Semaphore   bool
	Begun, Took time.Duration // when the nodes were asked, on the client's clock, and for how long
	Answers     []Answer      // by node
}

// Answer is what one node says of a name, or why it says nothing.
type Answer struct {
	protocol.Inspection
	Err error
}

// Failure is why a listing ended early. Either Cause is set, or too few nodes have listed their
// keys, and Nodes has the reasons.
type Failure struct {
	Cause error   // the context's, or that of the client's end
	Need  int     // how many nodes must list their keys
	Nodes []error // by node; nil: it has listed all its keys
	Took  time.Duration
}

// Said returns how many nodes said what stands there for the name. A key of another type is no
// lock's, and is an answer.
func (f *Found) Said() (nodes int) {
	for i := range f.Answers {
		if err := f.Answers[i].Err; err == nil || isOtherType(err) {
			nodes++
		}
	}
	return nodes
}

// isOtherType reports whether a script failed since its key is of another type. The error has
// the script's before that of the command, in a form that depends on the server.
func isOtherType(err error) bool {
	var refusal redis.Error
	return errors.As(err, &refusal) && strings.Contains(string(refusal), "WRONGTYPE")
}

// ErrNoAnswer is why a node says nothing.
var ErrNoAnswer = errors.New("no answer within the node timeout")

// errEnded is why a node's keys are not listed further: the listing is over.
var errEnded = errors.New("the listing is over")

// place is where names are found among a node's keys.
type place struct {
	before    string // the keys begin with it, and the lock's or the semaphore's key follows
	kind      string // the type of the keys
	semaphore bool
}

// places are all of them: the locks' own keys, and the wait queues of locks and of semaphores.
var places = [...]place{
	{"", "string", false},
	{protocol.Key("queue", ""), "zset", false},
	{protocol.Key("slots", ""), "zset", true},
}

// cursors are how far the keys of a node are listed, by place; "" if all are. SCAN begins with "0".
type cursors [len(places)]string

// run is one listing.
type run struct {
	*Listing
	match [len(places)]string // the patterns of the keys
	shown *memory
	asked []*node.Batch // by node: the questions that it may not have answered yet; nil: none
	done  []int         // nodes of which all keys were listed

	restUntil time.Duration                   // the instant until which the servers rest
	show      func(*Found) (shown, more bool) // the caller's
	failure   *Failure
}

// Run lists the names that match the pattern: of locks that have a key or a wait queue, and of semaphores that
// have a wait queue. It calls show with each, which returns whether the name is not to be shown again, and whether the
// listing goes on. It returns nil when all was listed, or show ended it.
func (l *Listing) Run(ctx context.Context, pattern string, show func(*Found) (shown, more bool)) *Failure {
	r := &run{Listing: l, shown: newMemory(l.Memory), show: show, asked: make([]*node.Batch, len(l.Nodes))}
	for k, at := range places {
		r.match[k] = protocol.MatchKeys(at.before+l.Prefix, pattern)
	}
	begun, need := l.Clock(), len(l.Nodes)-l.Need+1
	if err := r.enter(ctx); err != nil { // the first connections are there then
		return r.failure
	}
	l.Life.Leave()
	reasons := make([]error, len(l.Nodes))
	for i := range l.Nodes {
		switch err := r.listNode(ctx, i); {
		case errors.Is(err, errEnded):
			return r.failure
		case err != nil:
			reasons[i] = err
			continue
		}
		if r.done = append(r.done, i); len(r.done) == need {
			return nil
		}
	}
	return &Failure{Need: need, Nodes: reasons, Took: l.Clock() - begun}
}

// Look calls show with each of the names, of locks or of semaphores, whatever stands there. It returns nil when it has
// shown all.
func (l *Listing) Look(ctx context.Context, names []string, semaphores bool, show func(*Found)) *Failure {
	each := func(f *Found) (shown, more bool) {
		show(f)
		return false, true
	}
	r := &run{Listing: l, shown: newMemory(l.Memory), show: each, asked: make([]*node.Batch, len(l.Nodes))}
	if r.showAll(ctx, slices.Clone(names), semaphores) != nil {
		return r.failure
	}
	return nil
}

// listNode shows the names that one node has. It returns nil when it has listed all of them,
// errEnded when the listing is over, or why the node's keys cannot be listed.
func (r *run) listNode(ctx context.Context, i int) error {
	p := r.Nodes[i].Pipe()
	if p == nil {
		return r.Nodes[i].Why()
	}
	var at cursors
	for k := range at {
		at[k] = "0"
	}
	for at != (cursors{}) {
		locks, semaphores, err := r.scan(ctx, i, p, &at)
		if err != nil {
			return err
		}
		if err := r.showAll(ctx, locks, false); err != nil {
			return err
		}
		if err := r.showAll(ctx, semaphores, true); err != nil {
			return err
		}
	}
	return nil
}

// showAll asks the nodes what stands there for the names that were not shown yet, and shows that. The names are
// those of locks, or of semaphores.
func (r *run) showAll(ctx context.Context, names []string, semaphores bool) error {
	names = slices.DeleteFunc(names, func(name string) bool { return r.shown.has(subject{name, semaphores}) })
	most := batchNames
	if semaphores {
		most = batchSemaphores
	}
	for _, batch := range batches(names, most) {
		all, err := r.inspect(ctx, batch, semaphores)
		if err != nil {
			return err
		}
		if err := r.showBatch(all); err != nil {
			return err
		}
	}
	return nil
}

// showBatch shows what the nodes answered about names.
func (r *run) showBatch(all []Found) error {
	for i := range all {
		f := &all[i]
		if r.shown.isFull() && r.wasShown(f) {
			continue
		}
		shown, more := r.show(f)
		if shown {
			r.shown.add(subject{f.Name, f.Semaphore})
		}
		if !more {
			return errEnded
		}
	}
	return nil
}

// wasShown reports whether a node of which all keys were listed has the name.
func (r *run) wasShown(f *Found) bool {
	return slices.ContainsFunc(r.done, func(i int) bool {
		return f.Answers[i].Holder != "" || len(f.Answers[i].Queue) > 0
	})
}
