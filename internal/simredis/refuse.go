package simredis

import (
	"strings"

	"github.com/gomodule/redigo/redis"
)

// Refusal is what a server in trouble answers instead of executing a command.
type Refusal redis.Error

const (
	// Busy is for all that touches the memory: a script does not end.
	Busy Refusal = "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE."
	// Unsaved is for all that changes it: a snapshot could not be written.
	Unsaved Refusal = "MISCONF Redis is configured to save RDB snapshots, but it is currently not able to persist on disk."
	// Full is for all that adds to it, but for a script that has changed it already.
	Full Refusal = "OOM command not allowed when used memory > 'maxmemory'."
)

// changes are the commands that change the memory, and whether they add to it.
var changes = map[string]bool{
	"SET": true, "HSET": true, "HINCRBY": true, "ZADD": true,
	"DEL": false, "PEXPIRE": false, "PERSIST": false, "ZREM": false,
}

// Refuse has the server refuse commands from now on; "" ends that.
func (s *Server) Refuse(r Refusal) {
	s.world.mu.Lock()
	defer s.world.mu.Unlock()
	s.refusal = r
}

// refuses tells the error that a command gets, if it gets one. changed tells that the
// script that calls it has changed the memory already.
func (s *Server) refuses(command string, changed bool) (redis.Error, bool) {
	adds, change := changes[strings.ToUpper(command)]
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
