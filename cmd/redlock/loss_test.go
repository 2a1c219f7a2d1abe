package main

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock"
)

func TestLossNamesItsReason(t *testing.T) {
	for want, err := range map[string]error{
		`by servers that lost memory, or by server clocks set forward`: &redlock.LostError{Reason: redlock.LostRevoked},
		`the lock is held by "x\x1b[2J" now`:                           &redlock.LostError{Reason: redlock.LostRevoked, Holder: "x\x1b[2J"},
		`it could not be renewed: no quorum`:                           &redlock.LostError{Reason: redlock.LostNoQuorum, Cause: redlock.ErrNoQuorum},
		`the machine was suspended`:                                    &redlock.LostError{Reason: redlock.LostExpired},
		`max hold`:                                                     &redlock.LostError{Reason: redlock.LostMaxHold},
		`something else`:                                               errors.New("something else"),
	} {
		assert.Contains(t, lossOf(fmt.Errorf("unlock: %w", err), false), want)
	}
}
