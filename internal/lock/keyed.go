package lock

import (
	"strconv"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// keyed is a lock of one key: what the primitives Exclusive and Shared have in common. Its
// fields are arguments of commands, boxed once for all of them, and only read.
type keyed struct {
	Lock
	key        [1]string
	keyArg     any
	stripe     any    // the counter that the key is hashed to
	readersArg any    // the key of the lock's readers
	queueArgs  [1]any // the key of the lock's wait queue, for commands that take that alone
	askedArg   any    // the key that says who was asked; only if holders are told that others want the lock
}

// init makes the lock of a name, whose commands the primitive fills in. They need scripts.
func (k *keyed) init(e *Engine, t *Terms, prefix, name string, primitive Primitive, scripts protocol.Families) {
	e.need(scripts, t)
	queue, readers, key := protocol.KeysBeside(prefix, name)
	k.key[0] = key
	k.Lock = Lock{Name: name, keys: k.key[:], engine: e, terms: t, primitive: primitive, script: protocol.Release}
	k.keyArg, k.stripe = key, protocol.StripeArg(key)
	k.readersArg, k.queueArgs[0] = readers, queue
	if t.Wanted {
		k.askedArg = protocol.AskedKey(key)
	}
}

// ReleaseArgs implements Primitive. One script releases whatever an owner holds.
func (k *keyed) ReleaseArgs(r Release) []any {
	args := make([]any, 0, 8) // on the hot path: one allocation
	args = append(args, protocol.Release.SHA, "3", k.keyArg, k.queueArgs[0], k.readersArg, r.Owner)
	return r.addTicket(args, k.terms.labelArg)
}

// UndoArgs implements Primitive.
func (k *keyed) UndoArgs(owner, ticket string) []any {
	args := []any{"3", k.keyArg, k.queueArgs[0], k.readersArg, owner}
	if ticket != "" {
		args = append(args, ticket)
	}
	return args
}

// raise fills in a vote for a script that raises a counter: raise.lua, or advance.lua with the
// key of the readers.
func (k *keyed) raise(v *quorum.Vote, keys []any, owner string, token int64) {
	v.Call.Args = append(keys, owner, k.stripe, strconv.FormatInt(token, 10), k.terms.leastArg)
}

// Readers implements Primitive.
func (k *keyed) Readers() *Readers { return k.terms.readers() }

// granted implements Primitive.
func (k *keyed) granted(*Attempt) {}
