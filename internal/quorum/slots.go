package quorum

import (
	"slices"
	"strconv"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// A node that refuses permits to a caller that does not queue names the owner of each slot in Answer.Slots. Where
// waiters keep the caller out it names none: the caller gives way to them, whichever owners have the slots.

// ownerOf returns the name of a slot's owner at a node that refused; "" if the slot is free there, or the
// node does not say it.
func (a *Answer) ownerOf(slot int) string {
	from := slot * protocol.OwnerName
	to := from + protocol.OwnerName
	if a.Count != No || len(a.Slots) < to || a.Slots[from:to] == protocol.FreeSlot {
		return ""
	}
	return a.Slots[from:to]
}

// slots returns how many slots the semaphore has, as refusals show it; 0 if none does.
func (v Votes) slots() (size int) {
	for i := range v {
		if a := &v[i].answer; a.Count == No {
			size = max(size, len(a.Slots)/protocol.OwnerName)
		}
	}
	return size
}

// holding returns the greatest number of nodes at which other owners have so many slots that fewer than permits are left:
// each of these slots has one owner at that many nodes. Nodes whose waiters keep the caller out count for each owner.
func (v Votes) holding(permits int) int {
	giveWay := 0
	for i := range v {
		if a := &v[i].answer; a.Count == No && a.Holder == protocol.Permits && a.Slots == "" {
			giveWay++
		}
	}
	size := v.slots()
	if size == 0 {
		return giveWay
	}
	var byNodes [65]int // how many slots have an owner at so many nodes, and none that has it at more
	for slot := range size {
		byNodes[v.mostOf(slot)]++
	}
	taken := 0
	for nodes := len(v); nodes > 0; nodes-- {
		if taken += byNodes[nodes]; taken > max(size-permits, 0) {
			return nodes + giveWay
		}
	}
	return giveWay
}

// mostOf returns the greatest number of nodes at which one owner has a slot.
func (v Votes) mostOf(slot int) (most int) {
	for i := 0; i < len(v)-most; i++ {
		owner, nodes := v[i].answer.ownerOf(slot), 0
		for j := i; owner != "" && j < len(v); j++ {
			if v[j].answer.ownerOf(slot) == owner {
				nodes++
			}
		}
		most = max(most, nodes)
	}
	return most
}

// isContested reports whether several attempts may have asked for a slot at the same instant: a node granted it to this
// ballot, or the nodes that refused show different owners.
func (v Votes) isContested(slot int) bool {
	var first *Answer
	number := strconv.Itoa(slot)
	for i := range v {
		switch a := &v[i].answer; {
		case a.Count == Yes && slices.Contains(strings.Split(a.Slots, ","), number):
			return true
		case a.Count != No || a.Slots == "":
		case first == nil:
			first = a
		case a.ownerOf(slot) != first.ownerOf(slot):
			return true
		}
	}
	return false
}

// Rivals returns the other owners that nodes showed when they refused, each once: attempts that may have come at the
// same instant, and failed too. Of a semaphore's owners they are those that have contested slots.
func (b *Ballot) Rivals() (rivals []string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	add := func(owner string) {
		if owner != "" && !slices.Contains(rivals, owner) {
			rivals = append(rivals, owner)
		}
	}
	for i := range b.Votes {
		if a := &b.Votes[i].answer; a.Count == No && a.Slots == "" {
			add(a.Holder)
		}
	}
	for slot := range b.Votes.slots() {
		if b.Votes.isContested(slot) {
			for i := range b.Votes {
				add(b.Votes[i].answer.ownerOf(slot))
			}
		}
	}
	return rivals
}
