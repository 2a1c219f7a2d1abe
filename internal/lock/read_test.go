package lock

import (
	"errors"
	"fmt"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// A reply means different things as an answer to different scripts.
func TestReplyIsReadByWhatWasAsked(t *testing.T) {
	held := []any{[]byte("them"), int64(1500)}
	for name, c := range map[string]struct {
		reader *reader
		reply  any
		err    error
		want   quorum.Answer
	}{
		"granted":                   {acquiring, int64(7), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Done, Token: 7}},
		"held":                      {acquiring, held, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 1500 * ms}},
		"held for good":             {acquiring, []any{[]byte("them"), int64(-1)}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: -1}},
		"recreated":                 {renewing, int64(2), nil, quorum.Answer{Count: quorum.Recreated, Outcome: quorum.Confirmed, Kind: protocol.Recreated}},
		"released":                  {releasing, int64(1), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Done}},
		"released beside readers":   {releasing, int64(4), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.StillHeld}},
		"kept for the waiter":       {releasing, int64(2), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Kept}},
		"handed off to another":     {releasing, int64(3), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.HandedOff}},
		"held for less than a tick": {acquiring, []any{[]byte("them"), int64(0)}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them"}},
		"held for the longest Duration": {acquiring, []any{[]byte("them"), int64(system.Forever / ms)}, nil,
			quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: system.Forever / ms * ms}},
		"queued":                    {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 5 * ms, Place: protocol.Place{Position: 7}}},
		"new in the queue":          {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("n")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 5 * ms, Place: protocol.Place{Position: 7, Joined: true}}},
		"new, unheard, with doubts": {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("nucd1250")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 5 * ms, Place: protocol.Place{Position: 7, Joined: true, Watches: true, LookIn: 1250, Unheard: true}}},
		"few permits":               {permitting, []any{[]byte("redlock::permits"), int64(5), []byte("ABCD    ")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "redlock::permits", Remaining: 5 * ms, Slots: "ABCD    "}},
		"permits awaited":           {permitting, []any{[]byte("redlock::permits"), int64(5), int64(0), []byte("c")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "redlock::permits", Remaining: 5 * ms, Place: protocol.Place{Watches: true}}},
		"nothing to free":           {releasing, int64(0), nil, quorum.Answer{Count: quorum.NotFound, Outcome: quorum.Confirmed, Kind: protocol.NotFound}},
		"alive":                     {pinging, []byte("looked"), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Done}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.reader.Read(nil, c.reply, c.err))
		})
	}
	for name, c := range map[string]struct {
		reader *reader
		reply  any
		err    error
		want   quorum.Outcome
	}{
		"a recreated key is no grant":     {claiming, int64(2), nil, quorum.Unknown},
		"lost memory":                     {acquiring, int64(-1), nil, quorum.Refused},
		"zero is no grant":                {acquiring, int64(0), nil, quorum.Unknown},
		"nothing":                         {acquiring, nil, nil, quorum.Unknown},
		"a word":                          {acquiring, "OK", nil, quorum.Unknown},
		"a holder without a ttl":          {acquiring, []any{[]byte("them")}, nil, quorum.Unknown},
		"a position without flags":        {acquiring, []any{[]byte("them"), int64(5), int64(7)}, nil, quorum.Unknown},
		"an unknown flag":                 {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("nx")}, nil, quorum.Unknown},
		"a flag that lacks its time":      {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("nd")}, nil, quorum.Unknown},
		"more than a position and flags":  {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("n"), int64(4)}, nil, quorum.Unknown},
		"no holder":                       {acquiring, []any{nil, int64(-2)}, nil, quorum.Unknown},
		"a ttl beyond a Duration":         {acquiring, []any{[]byte("them"), int64(system.Forever/ms) + 1}, nil, quorum.Unknown},
		"a ttl beyond reason":             {acquiring, []any{[]byte("them"), int64(1 << 62)}, nil, quorum.Unknown},
		"an error in a script, 6.2":       {acquiring, nil, redis.Error("ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -OOM command not allowed"), quorum.Refused},
		"missing scripts":                 {acquiring, nil, redis.Error("NOSCRIPT No matching script."), quorum.NotSent},
		"never sent":                      {acquiring, nil, fmt.Errorf("%w: broken", pipe.ErrNotSent), quorum.NotSent},
		"an error reply":                  {acquiring, nil, redis.Error("OOM command not allowed"), quorum.Refused},
		"a broken connection":             {acquiring, nil, errors.New("EOF"), quorum.Unknown},
		"a word in place of a release":    {releasing, "OK", nil, quorum.Unknown},
		"five in place of a release":      {releasing, int64(5), nil, quorum.Unknown},
		"a number in place of a look":     {pinging, int64(1), nil, quorum.Unknown},
		"a pair in place of a release":    {releasing, held, nil, quorum.Unknown},
		"half the owner of a slot":        {permitting, []any{[]byte("redlock::permits"), int64(5), []byte("ABCDEF")}, nil, quorum.Unknown},
		"owners of no slot":               {permitting, []any{[]byte("redlock::permits"), int64(5), []byte{}}, nil, quorum.Unknown},
		"owners of too many slots":        {permitting, []any{[]byte("redlock::permits"), int64(5), make([]byte, 257*4)}, nil, quorum.Unknown},
		"a number in place of owners":     {permitting, []any{[]byte("redlock::permits"), int64(5), int64(1)}, nil, quorum.Unknown},
		"owners of slots, and one holder": {permitting, []any{[]byte("them"), int64(5), []byte("ABCD")}, nil, quorum.Unknown},
		"owners of slots of a mutex":      {acquiring, []any{[]byte("redlock::permits"), int64(5), []byte("ABCD")}, nil, quorum.Unknown},
		"bytes in place of a number":      {acquiring, []byte("them"), nil, quorum.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.reader.Read(nil, c.reply, c.err)
			require.Equal(t, quorum.NoAnswer, got.Count)
			require.Equal(t, c.want, got.Outcome)
			require.Error(t, got.Cause)
		})
	}
}
