package protocol

import (
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// List is a list of masters: a lock needs votes of a majority of them. It has a name, since lists with the same masters can
// begin one after the other.
type List struct {
	ID      string
	Masters string // sorted, with spaces between
	Arg     any    // ID, as commands have it; nil: it was not made yet
}

// MasterName returns how lists name the master at an address.
func MasterName(address string) string { return strings.Join(strings.Fields(address), "_") }

// ReadList reads the answer to HGETALL of MembersKey: the list in which a server stands, or stood last, and its own name
// there. The list is zero if there is none.
func ReadList(reply any, err error) (l List, self string, _ error) {
	fields, err := redis.StringMap(reply, err)
	l, self = listOf(fields)
	return l, self, err
}

func listOf(fields map[string]string) (l List, self string) {
	return List{ID: fields["id"], Masters: fields["masters"]}, fields["self"]
}

// NewList makes a list.
func NewList(id string, masters []string) List {
	return List{ID: id, Masters: strings.Join(slices.Sorted(slices.Values(masters)), " ")}
}

// Has reports whether a master stands in the list.
func (l List) Has(master string) bool { return slices.Contains(strings.Fields(l.Masters), master) }

// Len returns how many masters the list has.
func (l List) Len() int { return len(strings.Fields(l.Masters)) }

// membersKey is MembersKey, boxed once.
var membersKey any = MembersKey

// SealCall reserves a server for a client that is about to make it one of a list's masters.
type SealCall struct {
	Run        Run
	Client     string
	Seal       string // behind the client's name; no other seal has it
	Quarantine string // its name
	Undo       bool   // take the client's seal away
}

// Eval returns the arguments of EVAL.
func (c SealCall) Eval() []any {
	ttl := SealTTL.Milliseconds()
	if c.Undo {
		ttl = 0
	}
	return eval(Seal, []any{MembersKey, SealKey, c.Run.Quarantine(), c.Run.Guard()}, c.Client, c.Seal, c.Quarantine, ttl)
}
