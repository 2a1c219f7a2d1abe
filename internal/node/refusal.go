package node

import (
	"errors"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// IsRefusal reports whether an error is a server's reply that it does not do what a lock needs.
func IsRefusal(err error) bool {
	switch codeOf(err) {
	case "OOM", "MISCONF", "NOREPLICAS", "BUSY":
		return true
	}
	return LacksCommand(err)
}

// LacksCommand reports whether a server refuses a command because the user may not call it, or because the server does
// not know it. Other locks may not need it: a look shows whether all do.
func LacksCommand(err error) bool { return codeOf(err) == "NOPERM" || isUnknown(err) }

// codeOf returns the first word of a server's error reply; "" if err is none.
func codeOf(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	return code(reply)
}

// look is a call that shows whether the server does what a lock needs, and the receiver of its answer.
type look struct {
	node *Node
	to   pipe.Receiver
}

// NewLook returns the call. to gets the answer, after the node's refusal has begun or ended by it.
func (n *Node) NewLook(to pipe.Receiver) pipe.Call {
	return pipe.Call{Command: "EVALSHA", Args: protocol.LookCall().EvalSHA(), To: look{n, to}}
}

// Receive implements pipe.Receiver.
func (l look) Receive(reply any, err error) {
	switch c := codeOf(err); {
	case err == nil:
		l.node.Status.Accept()
	case c == "" || c == "NOSCRIPT" || isOfOtherServer(c):
		l.node.HandleError(err)
	default: // whatever it says
		l.node.Status.Refuse(err)
	}
	l.to.Receive(reply, err)
}
