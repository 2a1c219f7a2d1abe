package main

import (
	"context"
	"errors"
	"net"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/node"
)

var errSentinel = errors.New("it is a sentinel, which has no locks")

// cause is a reason for which doctor learns nothing of a node.
type cause struct{ code, what, consequence, remedy string }

// The consequences of such a reason.
const (
	neverVotes = "it never votes; where this makes a majority impossible no lock can be had"
	oneFewer   = "it does not vote: the cluster tolerates one failure less, or none"
)

// judgeSilence reports a node that does not answer, or only by an error.
func (x *examination) judgeSilence(f *nodeFacts) {
	c := causeOf(f.err, f.Answers)
	what := c.what
	if !errors.Is(f.err, errSentinel) {
		what += ": " + f.err.Error()
	}
	x.add(danger, c.code, f.Node, what, c.consequence, c.remedy)
}

// causeOf returns what an error means; answered is set if the node had answered before.
func causeOf(err error, answered bool) cause {
	var badReply *endpoint.BadReplyError
	var secure *endpoint.TLSError
	switch {
	case errors.Is(err, errSentinel):
		return cause{"sentinel", err.Error(), neverVotes, "give the master's own port: SENTINEL GET-MASTER-ADDR-BY-NAME shows it; better, use masters that no sentinel watches"}
	case node.IsCode(err, "DENIED"):
		return cause{"protected-mode", "it refuses connections from other machines", neverVotes,
			"give the server a password (requirepass, or ACL SETUSER) and write it into the URL; or, in a closed network only, CONFIG SET protected-mode no"}
	case node.IsFull(err):
		return cause{"max-clients", "it has no room for another connection", oneFewer,
			"raise maxclients, or find the clients that keep too many connections: CLIENT LIST"}
	case node.IsCode(err, "LOADING"):
		return cause{"loading", "it answers, and does not serve yet", oneFewer, "wait until it has read its data: INFO persistence shows loading_eta_seconds"}
	case isLogin(err):
		return cause{"password", "it refuses the user or the password", neverVotes,
			"write the right ones into the URL: redis://user:password@host, or redis://:password@host for the default user"}
	case errors.As(err, &secure) && secure.IsPlain():
		return cause{"tls", "it does not answer as a server with TLS", neverVotes, "write a redis:// URL for a server without TLS, or give the port at which it speaks TLS (tls-port)"}
	case errors.As(err, &secure):
		return cause{"tls", "the server and this client do not agree on TLS", neverVotes,
			"see to the certificates: --tls-ca for the authority that issued the server's, --tls-server-name for the name in it, --tls-cert and --tls-key for this client's"}
	case !answered && (errors.As(err, &badReply) || node.IsClosed(err)):
		return cause{"no-redis", "it does not answer as a Redis server without TLS", neverVotes,
			"is this a Redis server, and does it speak TLS? Write a rediss:// URL for a server with TLS, and see that the port is the server's"}
	case isFrozen(err):
		return cause{"unreachable", "it does not answer", oneFewer,
			"if the machine can be reached, its server is frozen: look for a slow command (SLOWLOG), for swapping, and for a stopped or paused process; else see to the network"}
	}
	return cause{"unreachable", "it does not answer", oneFewer, "start the server, or see to the network and to firewalls between here and there"}
}

// isLogin reports whether a server refuses the user or the password, or wants one.
func isLogin(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && node.IsPermanent(reply) && (node.IsCode(reply, "ERR") || node.IsCode(reply, "WRONGPASS") || node.IsCode(reply, "NOAUTH"))
}

// isFrozen reports whether a node was silent, rather than refused a connection: as a rule a frozen server, for whose
// process the kernel accepts connections.
func isFrozen(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
