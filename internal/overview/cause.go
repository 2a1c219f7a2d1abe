package overview

import (
	"context"
	"errors"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/node"
)

// Cause says why nothing is known of a node, in words that all faces share.
type Cause struct {
	Code        string // stable; docs/operations.md lists the codes
	What        string
	Consequence string
	Remedy      string
}

// The consequences.
const (
	NeverVotes = "it never votes; if this makes a majority impossible, no lock is granted"
	OneFewer   = "it does not vote: the cluster tolerates one failure less, or none"
	Refuses    = "it answers, and grants no lock: the cluster tolerates one failure less, or none"
)

// Remedies that the faces and redlock doctor share.
const (
	FindDelay    = "find out what delays it: SLOWLOG, LATENCY DOCTOR, swapping, a stopped process, the network"
	SeeToTheDisk = "see to its disk and its log; CONFIG SET save \"\" if it needs no snapshots"

	WaitForIt = "wait: leases that it may have forgotten must end first; if it restarts often, see its log"
)

// CauseOf returns what an error means; answered is set if the node had answered before.
func CauseOf(err error, answered bool) Cause {
	var badReply *endpoint.BadReplyError
	var secure *endpoint.TLSError
	var unread *endpoint.PasswordError
	switch {
	case errors.As(err, &unread):
		return Cause{"password", "this client cannot read its password", OneFewer, "write the password into the file that the URL or --password-file names: it is read at each connection"}
	case node.IsCode(err, "DENIED"):
		return Cause{"protected-mode", "it refuses connections from other machines", NeverVotes,
			"give the server a password (requirepass, or ACL SETUSER) and write it into the URL; or, in a closed network only, CONFIG SET protected-mode no"}
	case node.IsFull(err):
		return Cause{"max-clients", "it has no room for another connection", OneFewer,
			"raise maxclients, or find the clients that keep too many connections: CLIENT LIST"}
	case node.IsCode(err, "LOADING"):
		return Cause{"loading", "it answers, and does not serve yet", OneFewer, "wait until it has read its data: INFO persistence shows loading_eta_seconds"}
	case node.IsRefusal(err):
		return refusalOf(err)
	case node.IsCode(err, "READONLY") || node.IsCode(err, "MASTERDOWN"):
		return Cause{"replica", "it is a replica, or became one", NeverVotes, "give the master's address; were it a master before: REPLICAOF NO ONE, and let nothing promote or demote it"}
	case isLogin(err):
		return Cause{"password", "it refuses the user or the password", NeverVotes,
			"write the right ones into the URL: redis://user:password@host, or redis://:password@host for the default user"}
	case errors.As(err, &secure) && secure.IsPlain():
		return Cause{"tls", "it does not answer as a server with TLS", NeverVotes, "write a redis:// URL for a server without TLS, or give the port at which it speaks TLS (tls-port)"}
	case errors.As(err, &secure):
		return Cause{"tls", "the server and this client do not agree on TLS", NeverVotes,
			"see to the certificates: --tls-ca for the authority that issued the server's, --tls-server-name for the name in it, --tls-cert and --tls-key for this client's"}
	case !answered && (errors.As(err, &badReply) || node.IsClosed(err)):
		return Cause{"no-redis", "it does not answer as a Redis server without TLS", NeverVotes,
			"is this a Redis server, and does it speak TLS? Write a rediss:// URL for a server with TLS, and see that the port is the server's"}
	case isFrozen(err):
		return Cause{"unreachable", "it does not answer", OneFewer,
			"if the machine can be reached, its server is frozen: look for a slow command (SLOWLOG), for swapping, and for a stopped or paused process; else see to the network"}
	case isReply(err):
		return Cause{"refuses", "it answers with an error", Refuses, "see to what the server says, and read its log"}
	}
	return Cause{"unreachable", "it does not answer", OneFewer, "start the server, or see to the network and to firewalls between here and there"}
}

// refusalOf returns the meaning of a server's refusal of what a lock needs.
func refusalOf(err error) Cause {
	code, what, remedy := "no-rights", "the user lacks a right", "grant the user the rights of docs/reference/rights.md"
	switch {
	case node.IsCode(err, "OOM"):
		code, what, remedy = "full", "its memory is full", "raise maxmemory, or find what fills it: MEMORY STATS, redis-cli --bigkeys"
	case node.IsCode(err, "MISCONF") && strings.Contains(err.Error(), "AOF"):
		code, what, remedy = "aof-fails", "it cannot write its AOF", "free or mend the server's disk: INFO persistence and its log say what failed"
	case node.IsCode(err, "MISCONF"):
		code, what, remedy = "save-fails", "its last snapshot failed", SeeToTheDisk
	case node.IsCode(err, "NOREPLICAS"):
		code, what, remedy = "no-replicas", "it waits for replicas", "CONFIG SET min-replicas-to-write 0, and the same in redis.conf: a master for locks has no replicas"
	case node.IsCode(err, "BUSY"):
		code, what, remedy = "busy", "a script there does not end", "SCRIPT KILL ends it, if it has written nothing; find the client that calls it: no other program should use this server"
	case !node.IsCode(err, "NOPERM"):
		code, what, remedy = "unknown-command", "it does not know a command that locks need", "take its rename-command out of redis.conf and restart it; or use a server that has the command"
	}
	return Cause{code, what, Refuses, remedy}
}

// isReply reports whether an error is what a server answered.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

// isLogin reports whether a server refuses the user or the password, or wants one.
func isLogin(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && node.IsPermanent(reply) && (node.IsCode(reply, "ERR") || node.IsCode(reply, "WRONGPASS") || node.IsCode(reply, "NOAUTH"))
}

// isFrozen reports whether a node was silent rather than refused a connection: as a rule a frozen
// server, whose kernel accepts connections.
func isFrozen(err error) bool {
	var network net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.As(err, &network) && network.Timeout()
}
