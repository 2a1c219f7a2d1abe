package listing

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/lock"
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

// Found is a name, and what the nodes answered about it.
type Found struct {
	Name        string
	Begun, Took time.Duration // when the nodes were asked, on the client's clock, and for how long
	Answers     []Answer      // by node
}

// Answer is what one node says of a name, or why it says nothing.
type Answer struct {
	lock.Inspection
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

// run is one listing.
type run struct {
	*Listing
	match string
	shown *memory
	asked []*node.Batch // by node: the questions that it may not have answered yet; nil: none
	done  []int         // nodes of which all keys were listed

	restUntil time.Duration                    // the instant until which the servers rest
	show      func(*Found) (locked, more bool) // the caller's
	failure   *Failure
}

// Run lists the names that match the pattern. It calls show with each, which returns whether the
// name is locked, and whether the listing goes on. It returns nil when all was listed, or show
// ended it.
func (l *Listing) Run(ctx context.Context, pattern string, show func(*Found) (locked, more bool)) *Failure {
	r := &run{Listing: l, match: protocol.MatchKeys(l.Prefix, pattern), shown: newMemory(l.Memory), show: show,
		asked: make([]*node.Batch, len(l.Nodes))}
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

// listNode shows the names that one node has. It returns nil when it has listed all of them,
// errEnded when the listing is over, or why the node's keys cannot be listed.
func (r *run) listNode(ctx context.Context, i int) error {
	p := r.Nodes[i].Pipe()
	if p == nil {
		return r.Nodes[i].Why()
	}
	for cursor := "0"; ; {
		names, next, err := r.scan(ctx, i, p, cursor)
		if err != nil {
			return err
		}
		names = slices.DeleteFunc(names, r.shown.has)
		for _, batch := range batches(names) {
			if err := r.showAll(ctx, batch); err != nil {
				return err
			}
		}
		if next == "0" {
			return nil
		}
		cursor = next
	}
}

// showAll asks the nodes what stands there for the names, and shows that.
func (r *run) showAll(ctx context.Context, names []string) error {
	all, err := r.inspect(ctx, names)
	if err != nil {
		return err
	}
	for i := range all {
		f := &all[i]
		if r.shown.isFull() && r.wasShown(f) {
			continue
		}
		locked, more := r.show(f)
		if locked {
			r.shown.add(f.Name)
		}
		if !more {
			return errEnded
		}
	}
	return nil
}

// wasShown reports whether a node of which all keys were listed has the name.
func (r *run) wasShown(f *Found) bool {
	return slices.ContainsFunc(r.done, func(i int) bool { return f.Answers[i].Holder != "" })
}
