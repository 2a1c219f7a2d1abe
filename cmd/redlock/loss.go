package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/redlock-go/redlock"
)

// lossOf returns why the lock was lost, with each node's part if details is set; err is an ErrLost.
func lossOf(err error, details bool) string {
	var lost *redlock.LostError
	if !errors.As(err, &lost) {
		return err.Error()
	}
	switch lost.Reason {
	case redlock.LostRevoked:
		text := "its keys were deleted or replaced at a majority, by unlock --force, by hand, by servers that lost " +
			"memory, or by server clocks set forward"
		if lost.Holder != "" {
			text += "; the lock is held by " + namedOwner(lost.Holder, details) + " now"
		}
		return text
	case redlock.LostNoQuorum:
		cause := fmt.Sprint(lost.Cause)
		if !details {
			cause, _, _ = strings.Cut(cause, "; ")
		}
		return "it could not be renewed: " + strings.TrimPrefix(cause, "redlock: ")
	case redlock.LostExpired:
		return "it ran out before a renewal was begun: redlock or the machine was suspended"
	}
	return lost.Reason.String()
}
