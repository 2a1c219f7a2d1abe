package simredis

import (
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Refusal is the error reply of a server that cannot execute a command.
type Refusal redis.Error

const (
	// Busy is the reply to every command that reads or changes the memory: a script does
	// not end.
	Busy Refusal = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	// Unsaved is the reply to commands that change it: a snapshot could not be written.
	Unsaved Refusal = "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."
	// Full is the reply to commands that add to it, except in a script that has changed it
	// already.
	Full Refusal = "OOM command not allowed when used memory > 'maxmemory'."
	// Forbidden is the reply to a command for which the user lacks the right.
	Forbidden Refusal = "NOPERM this user has no permissions to run the command"
)

// changes are the commands that change the memory, and whether they add to it.
var changes = map[string]bool{
	"SET": true, "HSET": true, "HINCRBY": true, "ZADD": true,
	"DEL": false, "PEXPIRE": false, "PEXPIREAT": false, "PERSIST": false, "ZREM": false, "ZREMRANGEBYSCORE": false,
}

// Refuse makes the server refuse commands from now on; "" ends that.
func (s *Server) Refuse(r Refusal) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.refusal = r
}

// Forbid makes the server refuse a command from now on, also to scripts.
func (s *Server) Forbid(command string) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.forbidden = command
}

// refuses returns the error reply to a command, and whether there is one. changed is set if
// the script that calls the command has changed the memory already.
func (s *Server) refuses(command string, changed bool) (redis.Error, bool) {
	adds, change := changes[strings.ToUpper(command)]
	if strings.EqualFold(command, s.forbidden) {
		return redis.Error(Forbidden), true
	}
	switch s.refusal {
	case Busy:
		return redis.Error(Busy), true
	case Unsaved:
		return redis.Error(Unsaved), change
	case Full:
		return redis.Error(Full), adds && !changed
	}
	return "", false
}
