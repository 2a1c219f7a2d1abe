package endpoint

import (
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/loginreply"
	"github.com/redlock-go/redlock/internal/pipe"
)

// logins are those that were sent over a connection. Its replies become errors, which are shown and logged:
// so those that may repeat a password are withheld.
type logins struct {
	secrets atomic.Pointer[loginreply.Secrets] // nil: none was sent; stored under mu
	pending atomic.Bool                        // due has some; stored under mu

	mu  sync.Mutex // protects due
	due []uint64   // places of the logins among the commands, of those that are not answered
}

// add records AUTH, or a HELLO with AUTH, ahead of its answer. The sending goroutine calls it.
func (l *logins) add(place uint64, command string, args []any) {
	if command == "HELLO" {
		at := slices.IndexFunc(args, func(arg any) bool { return strings.EqualFold(textOf(arg), "AUTH") })
		if at < 0 || at+2 >= len(args) {
			return
		}
		args = args[at+1 : at+3]
	}
	if len(args) == 0 {
		return
	}
	password := textOf(args[len(args)-1])
	l.mu.Lock()
	defer l.mu.Unlock()
	l.secrets.Store(l.secrets.Load().With(password))
	l.due = append(l.due, place)
	l.pending.Store(true)
}

func textOf(arg any) string {
	switch arg := arg.(type) {
	case string:
		return arg
	case []byte:
		return string(arg)
	}
	return ""
}

// hide leaves in the reply to the command at a place what can be shown of it, and returns it if it is an error. Data
// stays as it is. The receiving goroutine calls it.
func (l *logins) hide(place uint64, r *pipe.Reply) (refusal redis.Error, refused bool) {
	secrets := l.secrets.Load()
	isLogin := secrets != nil && l.answered(place)
	if r.Kind != pipe.Other {
		return "", false
	}
	if secrets != nil {
		r.Set(hidden(r.Value(), secrets, isLogin))
	}
	refusal, refused = r.Value().(redis.Error)
	return refusal, refused
}

// answered reports whether the command at a place is a login, and removes it.
func (l *logins) answered(place uint64) bool {
	if !l.pending.Load() { // as for nearly every reply
		return false
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.due) == 0 || l.due[0] != place {
		return false
	}
	l.due = l.due[1:]
	l.pending.Store(len(l.due) > 0)
	return true
}

// hidden returns a reply without the errors and statuses that repeat a secret. No error of a login is shown.
func hidden(reply any, secrets *loginreply.Secrets, isLogin bool) any {
	switch reply := reply.(type) {
	case redis.Error:
		if isLogin || secrets.In(string(reply)) {
			return redis.Error(loginreply.Withhold(string(reply), secrets))
		}
	case string:
		if reply != "OK" && reply != "PONG" && secrets.In(reply) {
			return loginreply.Notice
		}
	case []any:
		for i := range reply {
			reply[i] = hidden(reply[i], secrets, false)
		}
	}
	return reply
}
