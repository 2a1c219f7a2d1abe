package node

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/protocol"
)

var (
	errConnecting = errors.New("not connected yet")

	// ErrReconnected is why a call that relies on an older connection is not sent.
	ErrReconnected = errors.New("it was just connected again, and may be another run of the server")

	// ErrDamaged is why a vote with a count that no clock explains does not count: it would be
	// spread to a majority, and tokens could not grow from there.
	ErrDamaged = errors.New("it answered a count that no clock explains; its record is checked")
)

// UnfitError is why a node cannot vote until a person acts.
type UnfitError struct{ Reason string }

func (e *UnfitError) Error() string { return e.Reason }

// IsPermanent reports whether an error of a node stays until a person acts.
func IsPermanent(err error) bool {
	var unfit *UnfitError
	if errors.As(err, &unfit) {
		return true
	}
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	switch code(reply) {
	case "WRONGPASS", "NOAUTH", "NOPERM", "DENIED", "WRONGTYPE":
		return true
	}
	if isOfClusterMode(reply) || isUnknown(reply) {
		return true
	}
	// Servers without ACLs, and the default user of newer ones, use these texts.
	return strings.HasPrefix(string(reply), "ERR invalid password") ||
		strings.HasPrefix(string(reply), "ERR AUTH") ||
		strings.HasPrefix(string(reply), "ERR Client sent AUTH")
}

// isUnknown reports whether a server does not know a command, of a client or of a script: as a rule it was renamed.
func isUnknown(err error) bool {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return false
	}
	text := strings.ToLower(string(reply))
	return strings.HasPrefix(text, "err unknown command") || strings.HasPrefix(text, "err unknown redis command") ||
		strings.HasPrefix(text, "err error running script") && strings.Contains(text, "unknown redis command")
}

// isOfClusterMode reports whether only servers in cluster mode give this error reply. INFO shows that
// mode too, where the user may call it.
func isOfClusterMode(reply redis.Error) bool {
	switch code(reply) {
	case "CROSSSLOT", "MOVED", "CLUSTERDOWN":
		return true
	}
	return false
}

// isOfOtherServer reports whether an error reply with this code shows that the server is not that of the handshake any
// more.
func isOfOtherServer(code string) bool {
	switch code {
	case "READONLY", "LOADING", "MASTERDOWN", "NOAUTH":
		return true
	}
	return false
}

// isTemporary reports whether err is an error reply to INFO for the time being: the user may call it.
func isTemporary(err error) bool {
	return IsCode(err, "BUSY") || IsCode(err, "LOADING") || IsCode(err, "MASTERDOWN")
}

// IsCode reports whether err is the server's error reply with this code.
func IsCode(err error, want string) bool {
	var reply redis.Error
	return errors.As(err, &reply) && code(reply) == want
}

// code returns the first word of an error reply. For a script that failed in a command it
// is the first word of the command's reply, which servers before 7.0 wrap: "ERR Error
// running script …: -OOM …".
func code(reply redis.Error) string {
	text := string(reply)
	if strings.HasPrefix(text, "ERR Error running script") {
		if i := strings.LastIndex(text, ": -"); i >= 0 {
			text = text[i+len(": -"):]
		}
	}
	if strings.Contains(text, "The user executing the script can't") ||
		strings.HasPrefix(text, "ERR ACL failure in script") {
		return "NOPERM" // up to Redis 7.0, and since 7.2
	}
	word, _, _ := strings.Cut(text, " ")
	return word
}

// IsFull reports whether a server has as many connections as it may have.
func IsFull(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(string(reply), "ERR max number of clients")
}

// Advise adds the remedy to an error that a person must act on.
func Advise(err error) error {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return err
	}
	switch {
	case IsCode(err, "NOPERM"):
		return fmt.Errorf("%w (%sgrant the user the commands listed in docs/reference/rights.md, on the locks' keys)",
			err, missingRight(reply))
	case IsCode(err, "OOM"):
		return fmt.Errorf("%w (the server is full: raise maxmemory)", err)
	case IsCode(err, "MISCONF") && strings.Contains(string(reply), "AOF"):
		return fmt.Errorf("%w (the server cannot write its AOF: free or mend its disk)", err)
	case IsCode(err, "MISCONF"):
		return fmt.Errorf("%w (the server cannot write its snapshot: free or mend its disk, or CONFIG SET save \"\" "+
			"if it needs none)", err)
	case IsCode(err, "NOREPLICAS"):
		return fmt.Errorf("%w (the server waits for replicas, which a master for locks should not have: CONFIG SET "+
			"min-replicas-to-write 0)", err)
	case IsCode(err, "BUSY"):
		return fmt.Errorf("%w (another client's script does not end: SCRIPT KILL at the server, and find that client)",
			err)
	case isUnknown(err):
		return fmt.Errorf("%w (%sthe server does not know a command that locks need: take its rename-command "+
			"out of redis.conf)", err, refusedCommand(reply, "it lacks "))
	case IsCode(err, "READONLY"):
		return fmt.Errorf("%w (it is a replica; give the pool the master's address)", err)
	case IsCode(err, "WRONGTYPE"):
		return fmt.Errorf("%w (the lock's key, or a key of the lock under redlock::, is used for something else: "+
			"choose another name or prefix, or delete that key)", err)
	case isOfClusterMode(reply):
		return fmt.Errorf("%w (the server runs in cluster mode: give the pool the address of a server with "+
			"cluster-enabled no)", err)
	case IsCode(err, "DENIED"):
		return fmt.Errorf("%w (the server is in protected mode: give it a password, and this client the same; or, in "+
			"a closed network only, set protected-mode no)", err)
	case IsCode(err, "LOADING"):
		return fmt.Errorf("%w (wait until the server has read its data)", err)
	case IsFull(err):
		return fmt.Errorf("%w (raise maxclients at the server, or find the clients that have its "+
			"connections: CLIENT LIST)", err)
	case IsPermanent(err):
		return fmt.Errorf("%w (check the user and the password)", err)
	}
	return err
}

var (
	scriptHash = regexp.MustCompile(`\b(?:f_)?([0-9a-f]{40})\b`)
	scriptLine = regexp.MustCompile(`@user_script: ?(\d+)`)
)

// missingRight returns the commands that a script was refused, for the advice. Servers before 7.2
// name the script and its line only; others name the command themselves. It returns "" for those,
// and where the user may not touch the keys.
func missingRight(refusal redis.Error) string {
	if !strings.Contains(string(refusal), "can't run this command") {
		return ""
	}
	return refusedCommand(refusal, "it may not call ")
}

// refusedCommand returns the commands of the line of a script that a server refused, behind what; "" if the refusal
// names no line of a script of ours.
func refusedCommand(refusal redis.Error, what string) string {
	text := string(refusal)
	hash, line := scriptHash.FindStringSubmatch(text), scriptLine.FindStringSubmatch(text)
	if hash == nil || line == nil {
		return ""
	}
	number, _ := strconv.Atoi(line[1])
	commands := protocol.CommandsAt(hash[1], number)
	if len(commands) == 0 {
		return ""
	}
	return what + strings.Join(commands, " or ") + ": "
}
