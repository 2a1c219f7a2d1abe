package lock

import (
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Inspect asks a node what stands there for the lock. ReadInspection reads the reply.
func (x *Exclusive) Inspect(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	return n.Ask(p, "EVAL", protocol.InspectCall("", x.key[0], right.Record).Eval()...), nil
}

// Inspections returns the commands that ask a node, by its record, what stands there for each of
// several names. They must be sent in this order: the first one has the script's text, and the
// others its hash.
func Inspections(prefix string, names []string, record any) []node.Command {
	return eachName(names, func(name string) protocol.Call { return protocol.InspectCall(prefix, name, record) })
}

// eachName returns the commands that call a script for each name: by its text, and from the second name on by its
// hash.
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

// ReadInspection reads the answer to Inspect, or the error that came in its place.
func ReadInspection(reply any, err error) (protocol.Inspection, error) {
	return protocol.ReadInspection(reply, node.Advise(err))
}
