package main

import (
	"errors"
	"fmt"

	"github.com/redlock-go/redlock"
)

// lossOf returns why the lock was lost; err is an ErrLost.
func lossOf(err error) string {
	var lost *redlock.LostError
	if !errors.As(err, &lost) {
		return err.Error()
	}
	switch lost.Reason {
	case redlock.LostRevoked:
		text := "its keys were deleted or replaced at a majority of the nodes: by redlock unlock --force, by hand, or by servers that lost their memory"
		if lost.Holder != "" {
			text += fmt.Sprintf("; the lock is held by %q now", lost.Holder)
		}
		return text
	case redlock.LostNoQuorum:
		return fmt.Sprintf("it could not be renewed: %v", lost.Cause)
	case redlock.LostExpired:
		return "it ran out before a renewal was begun: redlock or the machine was suspended"
	}
	return lost.Reason.String()
}
