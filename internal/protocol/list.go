package protocol

import (
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// List is a list of masters: a lock needs votes of a majority of them. It has a name, since lists with the same masters can
// begin one after the other. The lists that are chosen after it, one after the other, have numbers behind its name.
type List struct {
	ID      string
	Masters string // sorted, with spaces between
	Arg     any    // ID, as commands have it; nil: it was not made yet
}

// origin returns the name of the first of the lists that followed each other, and the number of this one: 0 for the first.
func (l *List) origin() (name string, number int) {
	name, behind, _ := strings.Cut(l.ID, ".")
	behind, _, _ = strings.Cut(behind, "-")
	number, _ = strconv.Atoi(behind)
	return name, number
}

// IsSuccessor reports whether the list was chosen after another one.
func (l *List) IsSuccessor() bool { return strings.Contains(l.ID, ".") }

// Follows reports whether the list was chosen after another one, or after a successor of that.
func (l *List) Follows(before *List) bool {
	mine, number := l.origin()
	its, earlier := before.origin()
	return mine == its && number > earlier
}

// Next returns a list of these masters that may follow this one.
func (l *List) Next(masters []string) List {
	name, number := l.origin()
	return NewList(name+"."+strconv.Itoa(number+1), masters)
}

// Mark sets a list apart from all others of its number: if those that chose one have all forgotten it, another one may be chosen.
func (l *List) Mark(mark string) { l.ID += "-" + mark }

// Names returns the masters' names.
func (l *List) Names() []string { return strings.Fields(l.Masters) }

// Majority returns the quorum of n masters: N/2+1 of the list, never of those that are reached. Any two quorums have a master
// in common.
func Majority(n int) int { return n/2 + 1 }

// Quorum returns how many of the masters are a majority.
func (l *List) Quorum() int { return Majority(l.Len()) }

// Proposal returns the list as a server keeps it while it is proposed.
func (l *List) Proposal() string { return l.ID + " " + l.Masters }

// ReadProposal reads a list as Proposal has it.
func ReadProposal(text string) List {
	id, masters, _ := strings.Cut(text, " ")
	return List{ID: id, Masters: masters}
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
	if fields["id"] == "" && fields["former"] != "" {
		return List{ID: fields["former"], Masters: fields["masters"]}, "" // it is none of them
	}
	return List{ID: fields["id"], Masters: fields["masters"]}, fields["self"]
}

// NewList makes a list.
func NewList(id string, masters []string) List {
	return List{ID: id, Masters: strings.Join(slices.Sorted(slices.Values(masters)), " ")}
}

// Has reports whether a master stands in the list.
func (l *List) Has(master string) bool { return slices.Contains(l.Names(), master) }

// Len returns how many masters the list has.
func (l *List) Len() int { return len(l.Names()) }

// Differences returns how many masters stand in one of two lists alone.
func (l *List) Differences(other *List) (n int) {
	for _, pair := range [][2]*List{{l, other}, {other, l}} {
		for _, name := range pair[0].Names() {
			if !pair[1].Has(name) {
				n++
			}
		}
	}
	return n
}

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

// Choice is what a server remembers of the choice of the list after its own. Of two ballots the one that is greater as text
// is the later one; "": there was none.
type Choice struct {
	Promised string // the latest ballot that it has promised
	Accepted string // the latest that it has accepted
	Proposal string // that it accepted with it
}

// Merge adds what another server of the same list remembers.
func (c *Choice) Merge(other Choice) {
	c.Promised = max(c.Promised, other.Promised)
	if other.Accepted > c.Accepted {
		c.Accepted, c.Proposal = other.Accepted, other.Proposal
	}
}

// ProposeCall has a server promise, or accept, a proposal for the list after its own.
type ProposeCall struct {
	List   string // in which the server stands
	Record any    // its key
	Ballot string
	Next   List // that is proposed; zero: to promise only
}

// Eval returns the arguments of EVAL.
func (c ProposeCall) Eval() []any {
	proposal := ""
	if c.Next.ID != "" {
		proposal = c.Next.Proposal()
	}
	return eval(Propose, []any{MembersKey, c.Record, SettlingKey}, c.List, c.Ballot, proposal)
}

// ProposeReply is the answer to a ProposeCall.
type ProposeReply struct {
	Taken    bool
	Choice   Choice        // if it is taken: what the server accepted last
	Late     string        // a later ballot that it has promised
	Settling time.Duration // it promises after so long
}

// ReadPropose reads the answer to a ProposeCall.
func ReadPropose(reply any, err error) (r ProposeReply, _ error) {
	texts, err := redis.Strings(reply, err)
	if err == nil && len(texts) < 2 {
		err = errors.New("unexpected reply to the proposal: too short")
	}
	if err != nil {
		return r, err
	}
	switch texts[0] {
	case "taken":
		r.Taken, r.Choice = true, Choice{Accepted: texts[1], Proposal: texts[len(texts)-1]}
	case "late":
		r.Late = texts[1]
	case "settling":
		ms, _ := strconv.ParseInt(texts[1], 10, 64)
		r.Settling = milliseconds(ms)
	}
	return r, nil
}

// InstallCall gives a server the list that was chosen after its own.
type InstallCall struct {
	Run  Run
	List string // in which the server stands
	Next List
}

// Eval returns the arguments of EVAL.
func (c InstallCall) Eval() []any {
	return eval(Install, []any{MembersKey, c.Run.Quarantine(), NewestKey, SettlingKey}, c.List, c.Next.ID, c.Next.Masters, c.Next.Len(), c.Run.Record(""))
}

// ReadInstall reads the answer to an InstallCall: whether the server has the list now.
func ReadInstall(reply any, err error) (bool, error) { return ReadAdmit(reply, err) }
