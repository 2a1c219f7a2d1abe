package loginreply

import (
	"errors"
	"strings"

	"github.com/gomodule/redigo/redis"
)

// CheckedError is an error of a connection of our own. Its reply is shown as it is: a login's is withheld already.
type CheckedError struct{ Err error }

func (e *CheckedError) Error() string { return e.Err.Error() }

func (e *CheckedError) Unwrap() error { return e.Err }

// Foreign returns what can be shown of an error by which another library's connection failed: its reply can be the answer to
// a login with a password that is not known here. The result matches whatever err matches, and has the reply that is shown.
func Foreign(err error) error {
	var checked *CheckedError
	var reply redis.Error
	if errors.As(err, &checked) || !errors.As(err, &reply) {
		return err
	}
	shown := Withhold(string(reply))
	if shown == string(reply) {
		return err
	}
	return &foreignError{
		text:    strings.ReplaceAll(err.Error(), string(reply), shown),
		reply:   redis.Error(shown),
		matches: func(target error) bool { return errors.Is(err, target) },
	}
}

// foreignError keeps the original in a function only: what prints an error's fields does not find it.
type foreignError struct {
	text    string
	reply   redis.Error
	matches func(error) bool
}

func (e *foreignError) Error() string { return e.text }

func (e *foreignError) Unwrap() error { return e.reply }

func (e *foreignError) Is(target error) bool { return e.matches(target) }
