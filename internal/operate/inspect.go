package operate

import (
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// lockQuestions returns the commands that ask a node, by its record, what stands there for each of several locks.
func lockQuestions(prefix string, names []string, record any) []node.Command {
	return eachName(names, func(name string) protocol.Call { return protocol.InspectCall(prefix, name, record) })
}

// slotQuestions is lockQuestions for semaphores.
func slotQuestions(prefix string, names []string, record any) []node.Command {
	return eachName(names, func(name string) protocol.Call { return protocol.SlotsCall(prefix, name, record) })
}

// eachName returns the commands that call a script for each name: by its text, and from the second name on by its
// hash. They must be sent in this order.
func eachName(names []string, call func(name string) protocol.Call) []node.Command {
	all := make([]node.Command, len(names))
	for i, name := range names {
		if i == 0 {
			all[i] = node.Command{Name: "EVAL", Args: call(name).Eval()}
			continue
		}
		all[i] = node.Command{Name: "EVALSHA", Args: call(name).EvalSHA()}
	}
	return all
}

// readLock reads the answer about a lock, or the error that came in its place.
func readLock(reply any, err error) (protocol.Inspection, error) {
	return protocol.ReadInspection(reply, node.Advise(err))
}

// readSlots reads the answer about a semaphore, or the error that came in its place. A user of mutexes alone may have
// no right to look at semaphores: to it there are none.
func readSlots(reply any, err error) (found protocol.Inspection, _ error) {
	err = addSlots(&found, reply, err)
	return found, err
}

// addSlots is readSlots for what was found before.
func addSlots(to *protocol.Inspection, reply any, err error) error {
	if node.IsCode(err, "NOPERM") {
		return nil
	}
	return to.AddSlots(reply, node.Advise(err))
}
